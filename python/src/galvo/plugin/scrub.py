"""Takes secrets, source code and inputs of tasks out of text before it leaves the cluster.

Nothing here knows what a secret is: only what names and shapes secrets usually have. Whatever it
takes out it replaces by ``[removed]``, so that it can be seen that something is gone. All of it
takes time linear in the length of the text, whatever the text is: patterns begin where a name or a
shape does, and what follows is bounded or cannot be read in two ways.
"""

import re
from typing import Any, Iterable, Iterator, List, Tuple

REMOVED = "[removed]"
DEEPEST = 40  # levels of nesting that are looked at; what is below is removed


def scrub(text: str) -> str:
    """The same text with ``[removed]`` in the place of whatever looks like a secret.

    >>> scrub("connecting to postgres://ada:hunter2@db:5432/x with token='abc'")
    "connecting to postgres://[removed]@db:5432/x with token='[removed]'"
    """
    if "://" in text:
        text = _USER_OF_URL.sub(_without_user, text)
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(REMOVED, text)
    text = _without_shapes(text)
    small = _lower(text)
    # Searching for fixed strings is fast, and tells for most text that there is nothing else.
    if any(hint in small for hint in _HEADER_HINTS):
        text = _HEADER.sub(r"\1" + REMOVED, text)
        text = _SCHEME.sub(r"\1" + REMOVED, text)
        small = _lower(text)
    return _without_values(text, small)


def scrub_data(value: Any, depth: int = 0) -> Any:
    """The same for JSON: secrets in its strings, and all values below a secret's name."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, (dict, list, tuple)):
        if depth > DEEPEST:
            return REMOVED
        if isinstance(value, dict):
            return {
                scrub(key) if isinstance(key, str) else key: REMOVED
                if is_secret_name(key) and not _says_nothing(item)
                else scrub_data(item, depth + 1)
                for key, item in value.items()
            }
        return [scrub_data(item, depth + 1) for item in value]
    return value


def is_secret_name(name: Any) -> bool:
    """Whether what is stored below this name is secret.

    >>> is_secret_name("DB_PASSWORD"), is_secret_name("tokenizer")
    (True, False)
    """
    return isinstance(name, str) and _SECRET_NAME.search(name[-200:]) is not None


def strip_source(text: str) -> str:
    """The same text without the lines of source code that tracebacks in it show.

    These are the lines after a ``File "...", line 1`` that are indented further, including the
    markers below them. A traceback may be chained or grouped, and may stand in the text as Python
    or JSON would quote it, with its ends of lines written as ``\\n``.
    """
    if ", line " not in text:
        return text
    kept: List[str] = []
    position = 0
    for found in _FRAME.finditer(text):
        if found.start() < position:
            continue  # it was part of what is removed
        begins = found.end()
        end = _END_OF_LINE.search(text, begins)
        if end is None:
            break
        margin = len(found.group("margin") or found.group("quoted") or "")
        begins = end.end()
        kept.append(text[position:begins])
        position = _skip_indented(text, begins, end.group(), margin)
    kept.append(text[position:])
    return "".join(kept)


def strip_source_of_lines(items: Iterable[Any]) -> Iterator[Any]:
    """The same for the texts of a list, which may be the lines of a traceback."""
    frame = ""  # the line that source may follow
    for item in items:
        if isinstance(item, str):
            item = strip_source(frame + item)[len(frame) :]
            last = item.rstrip("\n").rpartition("\n")[2]
            found = _FRAME.match(last)
            if found is not None:
                frame = (found.group("margin") or "") + 'File "", line 1\n'
            elif last.strip():
                frame = ""
        else:
            frame = ""
        yield item


def strip_source_of_warning(text: str) -> str:
    """The same for what Python's ``warnings`` give to a log, which ends with a line of source."""
    return _SOURCE_OF_WARNING.sub("", text)


def cut_inputs(text: str) -> str:
    """The same text without the arguments of tasks, which Dask's messages about failures show."""
    for title in ("Compute Failed", "Run Failed"):
        begins = text.find(title)
        if begins >= 0:
            head, text = text[:begins], text[begins:]
            # The values may have any number of lines, and any text in them. What follows them
            # either has none of its own, so that the last match is the one, or begins a traceback.
            follows = "\nException:" if title == "Compute Failed" else "\nTraceback (most recent"
            ends = text.rfind(follows)
            text = (
                head
                + _INPUTS.sub(_without_inputs, text[: ends if ends > 0 else len(text)])
                + (text[ends:] if ends > 0 else "")
            )
    return text


# ---------------------------------------------------------------------------------- patterns

# Parts of names. What stands in front of them does not matter; what follows is in _SUFFIX.
_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|(?<=[_-])pass|secrets?|tokens?|credentials?"
    r"|(?:api|access|account|private|encryption)[_ -]?key"
    r"|(?:signing|master|shared|subscription|auth|session|deploy|ssh|fernet|hmac)[_-]?key"
    r"|(?<![a-z0-9])auth|(?<=[?&;])sig|x-amz-signature)"
)
_SUFFIX = (
    r"(?:[_ -]?(?:\d{1,4}|value|key|id|hash|b64|base64|string|str|text|plain|env|s)(?![a-z0-9]))?"
)
_SECRET_NAME = re.compile(_NAMES + _SUFFIX + r"\Z|authorization\Z|(?:\A|set-)cookie\Z", re.I)
# What those parts begin with, as fixed strings, which are found fast.
_NAME_STARTS = re.compile(
    "pass|pwd|secret|token|credential|api|acc|priv|encr|sign|master|shared|subs|auth|session"
    "|deploy|ssh|fernet|hmac|sig|x-amz-s"
)
_NAME = re.compile(_NAMES + _SUFFIX)

# In a URL: the end of the password is the last @ before a slash, or the first one after it.
_USER_OF_URL = re.compile(
    r"(://)(?:([^\s/:@\"'<>\[\]]{0,256}:)(?!\d{1,5}(?:[/?#\s,;)\]}]|\Z))"
    r"(?:[^\s/\"'<>]{0,256}|[^\s@\"'<>]{0,256})@|[^\s/:@\"'<>\[\]]{20,256}@)"
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----[\s\S]*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\Z)"
)
_SHAPE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"  # GitHub
    r"|gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{16,}"  # GitLab
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
    r"|hooks\.slack\.com/services/[A-Za-z0-9/]{10,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"  # Stripe
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}"  # Google
    r"|sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|dapi[A-Za-z0-9]{32,}|dckr_pat_[A-Za-z0-9_-]{16,}|do[opr]_v1_[A-Za-z0-9]{32,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    # JSON web tokens, also encrypted ones.
    r"|(?<![_-])eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,4})"
)
_SHAPE_STARTS = re.compile(
    "AKIA|ASIA|AROA|AIDA|ABIA|ACCA|gh[opusr]_|github_pat_|gl|xox|xapp-|hooks[.]slack|sk_|rk_|pk_"
    "|whsec_|AIza|ya29|GOCSPX|sk-|hf_|npm_|pypi-|dapi|dckr_|do[opr]_v1|SG[.]|eyJ"
)

_HEADER_HINTS = ("authorization", "bearer", "basic", "cookie")
_QUOTE = r"(?:\\{0,8}[\"'])"
# All of the header's value: to the quote that ends it, or to the end of the line.
_HEADER = re.compile(
    r"((?:authorization|\bcookie|set-cookie)" + _QUOTE + r"?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}"
    r"(?:b(?=[\"'\\]))?" + _QUOTE + r"?(?!(?:\w{1,12}[ \t]{1,8})?\[removed\])"
    r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]{1,8})?)"
    r"(?![\s\"'\\]|(?:none|null|true|false)\b)"
    r"[^\n\r\"'\\]+",
    re.I,
)
# The scheme without its header, if what follows looks like no word.
_SCHEME = re.compile(
    r"(\b(?:bearer|basic)(?:[ \t]|%20|\+){1,4})"
    r"(?=[\w.~+/=%-]{0,40}(?:\d|(?-i:[a-z][A-Z])|=)|[A-Za-z0-9._~+/=%-]{24})"
    r"[A-Za-z0-9._~+/=%-]{4,}",
    re.I,
)

# name = value in the notations of Python, JSON, YAML, shells, headers, URLs, connection strings.
_SEPARATOR = re.compile(
    _QUOTE + r"?[ \t]{0,8}\]?[ \t]{0,8}"
    r"(?::[ \t]{0,4}(?:typing\.)?(?:str|bytes|any|optional|union|secretstr)\b[\w.\[\]| ,]{0,60}"
    r"=(?!=)|=>|:=|=(?!=)|:(?![:=])|%3d)[ \t]{0,16}"
    r"(?P<removed>[\[(]{0,2}[bruf]{0,2}\\{0,8}[\"']{0,3}\[removed\])?"
    r"(?P<opened>[\[(]{0,2})(?:[bruf]{0,2}(?=[\"'\\]))?"
    r"(?P<quote>\\{1,8}[\"']|\"\"\"|'''|[\"']|)"
)
# The other notations, each with what stands in front of the name's part, and behind the name.
_OTHERS = (
    (re.compile(r"<[\w:.-]{0,40}\Z"), re.compile(r">(?!\[removed\])(?P<value>[^<\n]+)")),
    (
        re.compile(r"\([ \t]{0,4}b?[\"'][\w.-]{0,60}\Z"),
        re.compile(
            r"[\"'][ \t]{0,4},[ \t]{0,4}b?(?P<quote>[\"'])(?!\[removed\])"
            r"(?P<value>[^\"'\n]+)(?=(?P=quote)[ \t]{0,4}\))"
        ),
    ),
    (
        re.compile(r"--[\w-]{0,20}\Z"),
        re.compile(r"(?:[\"'],)?[ \t]{1,8}[\"']?(?!\[removed\]|-)(?P<value>[^\s\"']+)"),
    ),
)
# A long string without an order beside the name of a secret. Keys of tasks have a hyphen there.
_BESIDE = re.compile(
    r"[\"'`(\[<]{0,3}[ \t,:]{1,4}(?:is|was|of|value|with|=)?[ \t:]{0,4}[\"'`(\[<]{0,3}"
    r"(?P<value>[A-Za-z0-9+_=~][A-Za-z0-9+/_=.~-]{19,})"
)
# What stands behind a quote is found by hand, and what has none by this: delimiters belong to it
# unless something follows that looks like the next thing.
_BARE_VALUE = re.compile(
    r"[^\s\"'&<>,;)\]}|]+(?:[,;)\]}|](?![\s,;)\]}|\"'&<>]|[\w.-]{1,40}[ \t]{0,3}[=:]|\Z)"
    r"[^\s\"'&<>,;)\]}|]+)*"
)
_NOT_A_VALUE = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|bytes|int|bool|float|any|string|object|self"
    r"|(?:typing\.)?optional\[.*|\*+|x{3,}|\.\.\.|\\[nrt].{0,2}|%[sr]|\{[\w.!:]{0,80}\}?"
    r"|(?-i:\$\{?[A-Z_][A-Z0-9_]{0,80}\}?)|[\[({]+|-?\d{1,3}|0\.\d+)[.:,;)\]}]{0,4}\Z"
    # Calls, as they stand in lines of source.
    r"|(?:[a-z]\w{0,80}[._]\w[\w.]{0,80}|tokenize|getenv|getpass|input|open|len|hash|str|repr)\(",
    re.I,
)
_PLACE = re.compile(r"(?:~?/|[A-Z]:\\)[^=]*\Z", re.I)
_ANOTHER = re.compile(r"[ \t]{0,4},[ \t]{0,4}[bruf]{0,2}(?P<quote>[\"'])(?!\[removed\])", re.I)
_QUOTED = {
    '"': re.compile(r"(?:[^\"\\\n]|\\.)*"),
    "'": re.compile(r"(?:[^'\\\n]|\\.)*"),
}
_FRAME = re.compile(
    # At the beginning of a line, behind the margin that groups of exceptions have.
    r"^(?P<margin>[ \t|]*)File \"[^\n]*\", line \d+"
    # Inside of quotes, where the quotes around the path may be escaped in turn.
    r"|(?:(?<=[\"'])|(?<=\\n))(?P<quoted>[ \t|]*)File \\*\"[^\"\n]*\", line \d+",
    re.M,
)
_SOURCE_OF_WARNING = re.compile(r"(?<=\n)  \S[^\n]*\n?\Z")
_END_OF_LINE = re.compile(r"\\+n|\n")
_INDENT = re.compile(r"[ \t|]*")
_INPUTS = re.compile(r"(\n(?:(?:kw)?args|Task):[ \t]*)[\s\S]*?(?=\nkwargs:|\Z)")


# ---------------------------------------------------------------------------------- replacements


def _without_user(found: "re.Match[str]") -> str:
    return found.group(1) + REMOVED + "@"


def _lower(text: str) -> str:
    """``text`` in lower case, with every character where it was."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(c.lower() if c.isascii() else c for c in text)


def _without_shapes(text: str) -> str:
    kept: List[str] = []
    position = 0
    found = _SHAPE_STARTS.search(text)
    while found is not None:
        shape = _SHAPE.match(text, found.start())
        if shape is not None:
            kept += text[position : shape.start()], REMOVED
            position = shape.end()
        found = _SHAPE_STARTS.search(text, found.end() if shape is None else position)
    return "".join([*kept, text[position:]]) if kept else text


def _without_values(text: str, small: str) -> str:
    """The text without the values of secrets; ``small`` is the same in lower case."""
    kept: List[str] = []
    position = 0
    found = _NAME_STARTS.search(small)
    while found is not None:
        name = _NAME.match(small, found.start())
        behind = found.end()
        if name is not None:
            behind = name.end()
            for begins, ends in _values_behind(text, small, name):
                kept += text[position:begins], REMOVED
                position = behind = ends
        found = _NAME_STARTS.search(small, behind)
    return "".join([*kept, text[position:]]) if kept else text


def _values_behind(text: str, small: str, name: "re.Match[str]") -> Iterator[Tuple[int, int]]:
    separator = _SEPARATOR.match(small, name.end())
    if separator is not None:
        if separator.group("removed"):
            return
        begins, quote = separator.end(), separator.group("quote")
        ends = _end_of_value(text, begins, quote)
        if ends > begins and (quote or _is_value(name.group(), text[begins:ends])):
            yield begins, ends
            # The other elements of a list or tuple.
            listed = separator.group("opened") and quote
            another = _ANOTHER.match(text, ends + len(quote)) if listed else None
            while another is not None:
                begins, quote = another.end(), another.group("quote")
                ends = _end_of_value(text, begins, quote)
                if ends > begins:
                    yield begins, ends
                another = _ANOTHER.match(text, ends + len(quote))
            return
    in_front = small[max(name.start() - 70, 0) : name.start()]
    for front, behind in _OTHERS:
        value = behind.match(small, name.end())
        if value is not None and front.search(in_front):
            yield value.span("value")
            return
    value = _BESIDE.match(text, name.end())
    if value is not None and _is_noise(value.group("value")):
        yield value.span("value")


def _end_of_value(text: str, position: int, quote: str) -> int:
    """Where the value ends. Where its second quote was cut off, the line is all of its end."""
    if quote in _QUOTED:
        matched = _QUOTED[quote].match(text, position)
    elif quote:
        ends = text.find(quote, position)
        line = len(text) if len(quote) == 3 and "\\" not in quote else text.find("\n", position)
        line = len(text) if line < 0 else line
        return ends if 0 <= ends < line else line
    else:
        matched = _BARE_VALUE.match(text, position)
    return matched.end() if matched else position


def _is_value(name: str, value: str) -> bool:
    """Whether text that has no quotes is a value, rather than code or a word about it."""
    if _NOT_A_VALUE.match(value):
        return False
    is_about_a_place = name.lower().startswith(("pwd", "credential"))
    return not (is_about_a_place and _PLACE.match(value))


def _is_noise(value: str) -> bool:
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return kinds == 3 or re.match(r"[0-9a-fA-F]{32,}\Z", value) is not None


def _without_inputs(found: "re.Match[str]") -> str:
    return found.group(1) + REMOVED


def _says_nothing(value: Any) -> bool:
    return value is None or isinstance(value, (bool, float)) or value in ("", 0, REMOVED)


def _skip_indented(text: str, position: int, newline: str, margin: int) -> int:
    """Where the lines end that begin here and are indented further than ``margin``."""
    ends = position
    while position < len(text):
        indent = _INDENT.match(text, position)
        after = indent.end() if indent else position
        end = _find_newline(text, after, newline)
        following = len(text) if end < 0 else end + len(newline)
        if after - position > margin and after != end:
            ends = following
        elif after != end:
            break
        # An empty line stays, unless more of what is to be removed follows. A quoted traceback
        # ends at the real end of the line, if not before.
        if end < 0 or (newline != "\n" and "\n" in text[after:following]):
            break
        position = following
    return ends


def _find_newline(text: str, position: int, newline: str) -> int:
    """Where the next end of line begins that is written exactly like this one."""
    while True:
        end = text.find(newline, position)
        if newline == "\n" or end <= 0 or text[end - 1] != "\\":
            return end
        position = end + 1  # an escape in the source, which has more backslashes
