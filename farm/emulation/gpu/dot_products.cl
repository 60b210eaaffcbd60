// Products of four bytes with four others, in plain OpenCL C: what a played GPU has of extensions that PoCL has not.
#ifndef __opencl_c_integer_dot_product_input_4x8bit_packed
int dot_acc_sat_4x8packed_su_int(uint a, uint b, int sum)
{
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_uchar4(b));
    return add_sat(sum, products.s0 + products.s1 + products.s2 + products.s3);
}
#endif
#ifndef cl_qcom_dot_product8
int qcom_dot8_acc(uint a, uint b, int sum)
{
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_uchar4(b));
    return sum + products.s0 + products.s1 + products.s2 + products.s3;
}
#endif
#ifndef cl_arm_integer_dot_product_accumulate_int8
int __attribute__((overloadable)) arm_dot_acc(char4 a, char4 b, int sum)
{
    const int4 products = convert_int4(a) * convert_int4(b);
    return sum + products.s0 + products.s1 + products.s2 + products.s3;
}
#endif
