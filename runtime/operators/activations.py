"""Activations: the operators that they are, and their parameters, by what `runtime/semantics/unary.py` says.

Parameters, both as attributes of the unary operator and of an operator that it is fused into:
clip: alpha = low, beta = high; leaky_relu, elu: alpha; hard_sigmoid: max(0, min(1, alpha * x + beta));
swish: x * sigmoid(alpha * x); selu: beta * elu(x; alpha); celu: alpha * elu(x / alpha; 1).
"""

from collections.abc import Mapping

from runtime.graph import ACTIVATIONS
from runtime.operators.row import AttributeKind
from runtime.semantics.unary import ACTIVATIONS as FUNCTIONS

ACTIVATION_OF = {"Relu": "relu", **{code.function.operator: code.function.activation for code in FUNCTIONS}}
ACTIVATION_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "relu": (),
    **{code.function.activation: code.function.parameter_names for code in FUNCTIONS},
}
ACTIVATION_ATTRIBUTES: Mapping[str, AttributeKind] = {"activation": ACTIVATIONS, "alpha": "float", "beta": "float"}
