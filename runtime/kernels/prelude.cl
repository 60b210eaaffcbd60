// What every kernel may use.
//
// Multiply-add as the variant writes it (which form is fast belongs to the driver): FMA=0 a*b+c, 1 fma, 2 mad.
#if FMA == 1
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#elif FMA == 2
#define MULTIPLY_ADD(a, b, c) mad(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// ACTIVATE(v, a, b): the fused activation of a scalar or vector v (evaluated several times) with its two parameters.
// Comparisons are written so that a NaN stays a NaN.
#define CLAMP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
#if ACTIVATION == 1 // sigmoid
#define ACTIVATE(v, a, b) (1.0f / (1.0f + exp(-(v))))
#elif ACTIVATION == 2 // tanh
#define ACTIVATE(v, a, b) tanh(v)
#elif ACTIVATION == 3 // leaky ReLU
#define ACTIVATE(v, a, b) ((v) < 0.0f ? (v) * (a) : (v))
#elif ACTIVATION == 4 // ELU
#define ACTIVATE(v, a, b) ((v) < 0.0f ? (exp(v) - 1.0f) * (a) : (v))
#elif ACTIVATION == 5 // hard sigmoid
#define ACTIVATE(v, a, b) CLAMP((v) * (a) + (b), 0.0f, 1.0f)
#elif ACTIVATION == 6 // hard swish
#define ACTIVATE(v, a, b) ((v) * CLAMP((v) / 6.0f + 0.5f, 0.0f, 1.0f))
#else // clamp to [a, b]
#define ACTIVATE(v, a, b) CLAMP(v, a, b)
#endif
