"""Markdown to HTML that needs nothing from elsewhere: MathML for math, no raw HTML, no scripts."""

import re

from nbconvert.filters.markdown_mistune import (
    IPythonRenderer,
    MarkdownWithMath,
    MathInlineParser,
)

from clusterdyn.report.mathml import latex_to_mathml


def markdown_to_html(source: str, headings: set[str]) -> str:
    """Renders Markdown.

    Math between ``$`` or ``$$`` becomes MathML. Raw HTML is shown as text, links with a scheme
    that could run something lead nowhere, and an image from elsewhere becomes a link to it.

    Args:
        source: the Markdown.
        headings: the heading ids that the page has so far; those of this text are added.

    Returns:
        The HTML.
    """
    renderer = _Renderer(headings)
    return MarkdownWithMath(renderer, inline=_InlineParser(hard_wrap=False)).render(source)


class _InlineParser(MathInlineParser):
    """Takes ``$`` for math only where it hugs its content, as pandoc does: not in ``$5 or $6``."""

    SPECIFICATION = MathInlineParser.SPECIFICATION | {
        "inline_math_tex": r"(?<![$\\])\$(?P<math_inline_tex>(?!\s)[^$`]+?(?<![\s\\]))\$(?![$\d])"
    }


class _Renderer(IPythonRenderer):
    def __init__(self, headings: set[str]) -> None:
        super().__init__(escape=True, allow_harmful_protocols=False)
        self._headings = headings

    def heading(self, text: str, level: int, **attributes: object) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"<[^>]+>", "", text).lower()).strip("-")
        slug = anchor = slug or "section"
        number = 1
        while anchor in self._headings:
            number += 1
            anchor = f"{slug}-{number}"
        self._headings.add(anchor)
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def table(self, text: str) -> str:
        return f'<div class="scroll" tabindex="0"><table>\n{text}</table></div>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        if info and info.startswith("mermaid"):
            info = None  # would need a script from elsewhere to be drawn
        return f'<div class="scroll" tabindex="0">{super().block_code(code, info)}</div>\n'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("data:"):
            return super().image(text, url, title)
        return self.link(text or self.escape_html(url), url, title)

    def inline_math(self, body: str) -> str:
        return self._math(body, "inline")

    def block_math(self, body: str) -> str:
        return f'<div class="scroll math" tabindex="0">{self._math(body, "block")}</div>'

    def latex_environment(self, name: str, body: str) -> str:
        return self.block_math(f"\\begin{{{name}}}{body}\\end{{{name}}}")

    def _math(self, latex: str, display: str) -> str:
        try:
            return latex_to_mathml(latex, display=display)
        except ValueError:  # its source is readable, too
            return self.codespan(latex.strip())
