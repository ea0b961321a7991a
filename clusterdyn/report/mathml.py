"""LaTeX formulas as MathML, which browsers draw without a script."""

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = re.compile(
    "math|mrow|mi|mn|mo|mtext|mspace|mfrac|msqrt|mroot|msub|msup|msubsup|munder|mover|munderover|"
    "mmultiscripts|mprescripts|none|mtable|mtr|mtd|mstyle|mpadded|mphantom|menclose"
)
_REFUSED_ATTRIBUTES = ("href", "style", "class", "id")
_FIRST_SYMBOL = "\u2000"


def latex_to_mathml(latex: str, *, display: str) -> str:
    """Typesets a formula.

    The converter lets unknown commands and text pass through as they are, markup included; such a
    formula is refused here.

    Args:
        latex: the formula, without its dollar signs.
        display: ``"inline"`` or ``"block"``.

    Returns:
        A ``<math>`` element.

    Raises:
        ValueError: if the formula cannot be typeset.
    """
    # The converter knows the environment that `aligned` is a variant of.
    latex = latex.strip().replace("{aligned}", "{split}")
    try:
        root = ElementTree.fromstring(convert(latex, display=display))
    except Exception as error:  # the converter raises errors of many kinds
        raise ValueError(f"cannot typeset the formula {latex!r}: {error}") from error
    for element in root.iter():
        element.tag = element.tag.removeprefix(_NAMESPACE)
        text = element.text or ""
        if (
            not _ELEMENTS.fullmatch(element.tag)
            or set(element.attrib) & set(_REFUSED_ATTRIBUTES)
            or "\\" in text
        ):
            raise ValueError(f"cannot typeset the formula {latex!r}: stopped at {text!r}")
        # Only a single letter is a variable, set in italics; `tanh` and 𝒩 are as they should be.
        if element.tag == "mi" and (len(text) != 1 or text >= _FIRST_SYMBOL):
            element.set("mathvariant", "normal")
    return ElementTree.tostring(root, encoding="unicode")
