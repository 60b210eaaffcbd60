"""What a module of custom operators imports: the names that its declarations are made of (docs/custom-operators.md)."""

from runtime.custom.declaration import Attribute, CFunction, OpenCLKernel
from runtime.custom.declaration import CaseDeclaration as Case
from runtime.custom.declaration import InputDeclaration as Input
from runtime.custom.declaration import OperatorDeclaration as Operator
from runtime.kernels.spec import Variant, ceil_div, variant

__all__ = [
    "Attribute",
    "CFunction",
    "Case",
    "Input",
    "OpenCLKernel",
    "Operator",
    "Variant",
    "ceil_div",
    "variant",
]
