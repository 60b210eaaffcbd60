// What every kernel may use. Macros take scalars and vectors alike and evaluate their arguments several times.

// Before a loop over a register tile: its arrays stay in registers only when no index is variable.
#define UNROLLED _Pragma("unroll")

// Multiply-add as the variant writes it (which form is fast belongs to the driver): FMA=0 a*b+c, 1 fma, 2 mad.
#if FMA == 1
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#elif FMA == 2
#define MULTIPLY_ADD(a, b, c) mad(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// In half arithmetic, how many products are added in half before their sum is added to a float; a multiple of four. Half
// keeps 11 bits: of what is added to a long sum, its last bits are lost (docs/results.md).
#ifndef RUN
#define RUN 16
#endif

// Comparisons are written so that a NaN stays a NaN.
#define CLAMP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
#define GREATER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define LESS(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define SIGMOID(v) (1.0f / (1.0f + exp(-(v))))
#define LEAKY_RELU(v, a) ((v) < 0.0f ? (v) * (a) : (v))
#define ELU(v, a) ((v) < 0.0f ? (exp(v) - 1.0f) * (a) : (v))
#define HARD_SIGMOID(v, a, b) CLAMP((v) * (a) + (b), 0.0f, 1.0f)
#define HARD_SWISH(v) ((v) * CLAMP((v) / 6.0f + 0.5f, 0.0f, 1.0f))
#define SOFTPLUS(v) (fmax(v, 0.0f) + log1p(exp(-fabs(v))))
#define GELU(v) (0.5f * (v) * (1.0f + erf((v) * 0.70710678f)))
#define GELU_TANH(v) (0.5f * (v) * (1.0f + tanh(0.79788456f * ((v) + 0.044715f * (v) * (v) * (v)))))
#define SWISH(v, a) ((v) * SIGMOID((a) * (v)))
#define MISH(v) ((v) * tanh(SOFTPLUS(v)))
#define SELU(v, a, b) (ELU(v, a) * (b))
#define CELU(v, a) ((v) < 0.0f ? (exp((v) / (a)) - 1.0f) * (a) : (v))

// ACTIVATE(v, a, b): the fused activation with its two parameters.
#if ACTIVATION == 1
#define ACTIVATE(v, a, b) SIGMOID(v)
#elif ACTIVATION == 2
#define ACTIVATE(v, a, b) tanh(v)
#elif ACTIVATION == 3
#define ACTIVATE(v, a, b) LEAKY_RELU(v, a)
#elif ACTIVATION == 4
#define ACTIVATE(v, a, b) ELU(v, a)
#elif ACTIVATION == 5
#define ACTIVATE(v, a, b) HARD_SIGMOID(v, a, b)
#elif ACTIVATION == 6
#define ACTIVATE(v, a, b) HARD_SWISH(v)
#elif ACTIVATION == 20
#define ACTIVATE(v, a, b) GELU(v)
#elif ACTIVATION == 21
#define ACTIVATE(v, a, b) GELU_TANH(v)
#elif ACTIVATION == 22
#define ACTIVATE(v, a, b) SWISH(v, a)
#elif ACTIVATION == 23
#define ACTIVATE(v, a, b) MISH(v)
#elif ACTIVATION == 24
#define ACTIVATE(v, a, b) SELU(v, a, b)
#elif ACTIVATION == 25
#define ACTIVATE(v, a, b) CELU(v, a)
#else
#define ACTIVATE(v, a, b) CLAMP(v, a, b)
#endif

// APPLY_UNARY(v, a, b): an element-wise function with its two parameters.
#ifdef UNARY
#if UNARY == 0
#define APPLY_UNARY(v, a, b) CLAMP(v, a, b)
#elif UNARY == 1
#define APPLY_UNARY(v, a, b) SIGMOID(v)
#elif UNARY == 2
#define APPLY_UNARY(v, a, b) tanh(v)
#elif UNARY == 3
#define APPLY_UNARY(v, a, b) LEAKY_RELU(v, a)
#elif UNARY == 4
#define APPLY_UNARY(v, a, b) ELU(v, a)
#elif UNARY == 5
#define APPLY_UNARY(v, a, b) HARD_SIGMOID(v, a, b)
#elif UNARY == 6
#define APPLY_UNARY(v, a, b) HARD_SWISH(v)
#elif UNARY == 7
#define APPLY_UNARY(v, a, b) exp(v)
#elif UNARY == 8
#define APPLY_UNARY(v, a, b) log(v)
#elif UNARY == 9
#define APPLY_UNARY(v, a, b) sqrt(v)
#elif UNARY == 10
#define APPLY_UNARY(v, a, b) (-(v))
#elif UNARY == 11
#define APPLY_UNARY(v, a, b) fabs(v)
#elif UNARY == 12
#define APPLY_UNARY(v, a, b) floor(v)
#elif UNARY == 13
#define APPLY_UNARY(v, a, b) ceil(v)
#elif UNARY == 14
#define APPLY_UNARY(v, a, b) erf(v)
#elif UNARY == 15
#define APPLY_UNARY(v, a, b) (1.0f / (v))
#elif UNARY == 16
#define APPLY_UNARY(v, a, b) rint(v)
#elif UNARY == 17
#define APPLY_UNARY(v, a, b) SOFTPLUS(v)
#elif UNARY == 18
#define APPLY_UNARY(v, a, b) sin(v)
#elif UNARY == 19
#define APPLY_UNARY(v, a, b) cos(v)
#elif UNARY == 20
#define APPLY_UNARY(v, a, b) GELU(v)
#elif UNARY == 21
#define APPLY_UNARY(v, a, b) GELU_TANH(v)
#elif UNARY == 22
#define APPLY_UNARY(v, a, b) SWISH(v, a)
#elif UNARY == 23
#define APPLY_UNARY(v, a, b) MISH(v)
#elif UNARY == 24
#define APPLY_UNARY(v, a, b) SELU(v, a, b)
#else
#define APPLY_UNARY(v, a, b) CELU(v, a)
#endif
#endif

// APPLY_BINARY(a, b): an element-wise function of two values.
#ifdef BINARY
#if BINARY == 0
#define APPLY_BINARY(a, b) ((a) + (b))
#elif BINARY == 1
#define APPLY_BINARY(a, b) ((a) - (b))
#elif BINARY == 2
#define APPLY_BINARY(a, b) ((a) * (b))
#elif BINARY == 3
#define APPLY_BINARY(a, b) ((a) / (b))
#elif BINARY == 4
#define APPLY_BINARY(a, b) GREATER(a, b)
#elif BINARY == 5
#define APPLY_BINARY(a, b) LESS(a, b)
#elif BINARY == 6
#define APPLY_BINARY(a, b) pow(a, b)
#else
#define APPLY_BINARY(a, b) ((a) < 0.0f ? (a) * (b) : (a))
#endif
#endif
