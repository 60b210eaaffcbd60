// Products of four bytes with four others, in plain OpenCL C: what a played GPU has of extensions that PoCL has not.
#ifndef __opencl_c_integer_dot_product_input_4x8bit_packed
#define dot_acc_sat_4x8packed_su_int(a, b, sum) played_dot(convert_int4(as_char4(a)), convert_int4(as_uchar4(b)), sum)
#endif
#define qcom_dot8_acc(a, b, sum) played_dot(convert_int4(as_char4(a)), convert_int4(as_uchar4(b)), sum)
#define arm_dot_acc(a, b, sum) played_dot(convert_int4(a), convert_int4(b), sum)

int played_dot(int4 a, int4 b, int sum) { return sum + a.s0 * b.s0 + a.s1 * b.s1 + a.s2 * b.s2 + a.s3 * b.s3; }
