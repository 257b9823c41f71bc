"""Redacts secrets, source code and task inputs in text before it leaves the cluster.

Redaction relies on the usual names and shapes of secrets only. Each removed part is replaced by
``[removed]``, so that the removal is visible. All functions take time linear in the length of the
text, whatever it contains: patterns start at a name or a shape, and what follows is bounded or
unambiguous.
"""

import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple
from unicodedata import normalize

from .inputs import REMOVED, remove_arguments

DEEPEST = 40  # the largest nesting depth examined; deeper values are removed
MOST_KNOWN, SHORTEST_KNOWN = 100, 8

_secrets: List[str] = []  # secrets of this process, of any shape


def add_secret(secret: Any) -> None:
    """Removes this exact text from all others from now on, such as the token of the reports."""
    if isinstance(secret, str) and len(secret) >= SHORTEST_KNOWN and secret not in _secrets:
        _secrets.append(secret)
        del _secrets[:-MOST_KNOWN]


def remove_secret(secret: Any) -> None:
    """Stops removing this text, which is no longer in this process."""
    if secret in _secrets:
        _secrets.remove(secret)


def scrub(text: str) -> str:
    """Returns the text with ``[removed]`` in place of everything that looks like a secret.

    The recognized notations are listed in ``docs/reporting.md``. Escape sequences of terminals,
    decomposed letters and no-break spaces may be anywhere in a notation. They are only replaced in
    a text with a secret.

    >>> scrub("connecting to postgres://ada:hunter2@db:5432/x with token='abc'")
    "connecting to postgres://[removed]@db:5432/x with token='[removed]'"
    """
    plain_text = plain(text)
    scrubbed = _scrub(plain_text)
    return text if scrubbed == plain_text else scrubbed


def _scrub(text: str) -> str:
    for secret in _secrets:
        if secret in text:
            text = text.replace(secret, REMOVED)
    text = _without_tokens(text)
    if "://" in text:
        text = _USER_OF_URL.sub(_without_user, text)
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(REMOVED, text)
    text = _without_shapes(text)
    lowered = _lower(text)
    # A search for fixed strings is fast, and rules out the patterns for most texts.
    if any(command in lowered for command in _COMMANDS):
        text = _OPTION.sub(_without_option, text)
        lowered = _lower(text)
    if "oracle:" in lowered or "sqlplus" in lowered:
        text = _ORACLE.sub(r"\1" + REMOVED, text)
        lowered = _lower(text)
    if any(hint in lowered for hint in _HEADER_HINTS):
        text = _PARAMETERS.sub(r"\1" + REMOVED, text)
        text = _HEADER.sub(r"\1" + REMOVED, text)
        text = _SCHEME.sub(r"\1" + REMOVED, text)
        text = _NAMED_SCHEME.sub(r"\1" + REMOVED, text)
        lowered = _lower(text)
    if "identified" in lowered:
        text = _IDENTIFIED.sub(_without_identification, text)
    text = _PGPASS.sub(r"\1" + REMOVED, text)
    return _without_noise(_without_values(text, _lower(text)))


def plain(text: str) -> str:
    """Returns the text with plain spaces and composed letters, and without escape sequences."""
    if any(start in text for start in _SEQUENCE_STARTS):
        text = _SEQUENCE.sub("", text)
    if not text.isascii():
        text = _SPACES.sub(" ", text)
        if _MARKS.search(text):
            text = _DECOMPOSED.sub(_composed, text)
    return text


def scrub_data(value: Any, depth: int = 0) -> Any:
    """Redacts JSON: secrets in its strings, and all values under a secret's name."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, (dict, list, tuple)):
        if depth > DEEPEST:
            return REMOVED
        if isinstance(value, dict):
            return {
                scrub(key) if isinstance(key, str) else key: REMOVED
                if is_secret_name(key) and not _is_empty(item)
                else scrub_data(item, depth + 1)
                for key, item in without_named_value(value).items()
            }
        return [scrub_data(item, depth + 1) for item in without_paired_values(value)]
    return value


def without_named_value(data: Dict[Any, Any]) -> Dict[Any, Any]:
    """Removes the value of a dict that names it, as in ``{"name": "password", "value": "x"}``.

    Numbers are kept: measurements are written like this, too.
    """
    if any(is_secret_name(dict.get(data, name)) for name in _NAMING):
        return {
            key: REMOVED if key in _VALUES and not isinstance(item, _NUMBERS) else item
            for key, item in data.items()
        }
    return data


def without_paired_values(items: Any) -> Any:
    """Removes the values of a list that is a pair of a name and a value, or a list of such pairs.

    Single pairs are recognized by the names of headers only: others may be lists of names.
    """
    if len(items) == 2 and isinstance(items[0], (str, bytes)) and _is_header(items[0]):
        return items if isinstance(items[1], _NUMBERS) else [items[0], REMOVED]
    pairs = isinstance(items, (list, tuple)) and all(map(_is_pair, items))
    if not pairs or not any(is_secret_name(name) for name, _ in items):
        return items
    return [
        [name, REMOVED if is_secret_name(name) and not isinstance(item, _NUMBERS) else item]
        for name, item in items
    ]


def is_secret_name(name: Any) -> bool:
    """True if the value stored under this name is a secret.

    >>> is_secret_name("DB_PASSWORD"), is_secret_name("tokenizer")
    (True, False)
    """
    if isinstance(name, (bytes, bytearray)):
        name = bytes(name[-200:]).decode("latin-1")
    return isinstance(name, str) and _SECRET_NAME.search(plain(name[-200:])) is not None


def strip_source(text: str) -> str:
    """Returns the text without the lines of source code in its tracebacks.

    These are the lines after a ``File "...", line 1`` that are indented further, including the
    markers below them. A traceback may be chained or grouped, and may be quoted as Python or JSON
    would, with newlines written as ``\\n``.
    """
    if ", line " not in text:
        return text
    pieces: List[str] = []
    position = 0
    for match in _FRAME.finditer(text):
        if match.start() < position:
            continue  # it was part of the removed text
        start = match.end()
        end = _END_OF_LINE.search(text, start)
        if end is None:
            break
        margin = len(match.group("margin") or match.group("quoted") or "")
        start = end.end()
        pieces.append(text[position:start])
        position = _skip_indented(text, start, end.group(), margin)
    pieces.append(text[position:])
    return "".join(pieces)


def strip_source_of_lines(items: Iterable[Any]) -> Iterator[Any]:
    """Strips source from the texts of a list, which may be the lines of a traceback."""
    frame = ""  # the line that source may follow
    for item in items:
        if isinstance(item, str):
            item = strip_source(frame + item)[len(frame) :]
            last = item.rstrip("\n").rpartition("\n")[2]
            match = _FRAME.match(last)
            if match is not None:
                frame = (match.group("margin") or "") + 'File "", line 1\n'
            elif last.strip():
                frame = ""
        else:
            frame = ""
        yield item


def strip_source_of_warning(text: str) -> str:
    """Strips the line of source at the end of a logged message of Python's ``warnings``."""
    return _SOURCE_OF_WARNING.sub("", text)


def cut_inputs(text: str) -> str:
    """Removes the arguments of tasks, which Dask's messages about failures contain.

    A text without arguments is kept: newer releases omit arguments that do not fit.
    """
    for title in ("Compute Failed", "Run Failed"):
        start = text.find(title)
        if start >= 0:
            head, text = text[:start], text[start:]
            # The values may have any number of lines, with any text. What follows them either
            # contains no such marker itself, so that the last match is the right one, or begins a
            # traceback.
            end_marker = "\nException:" if title == "Compute Failed" else "\nTraceback (most recent"
            stop = text.rfind(end_marker)
            text = (
                head
                + _INPUTS.sub(_without_inputs, text[: stop if stop > 0 else len(text)])
                + (text[stop:] if stop > 0 else "")
            )
    return text


# ---------------------------------------------------------------------------------- patterns

# Parts of names. Any prefix is allowed; the allowed suffixes are in _SUFFIX.
_NAMES = (
    r"(?:pass(?:wor[dt]|wd|w(?![a-z])|phrase|code)|pwd|pswd|psw(?![a-z])|(?<=[_-])pass"
    r"|secrets?|tokens?|credentials?|dsn|conn(?:ection)?[_ -]?str(?:ing)?s?"
    r"|(?:(?<=db)|(?<=my)|(?<=pg)|(?<=ftp)|(?<=sql)|(?<=ssh)|(?<=ldap)|(?<=mail)|(?<=root)"
    r"|(?<=smtp)|(?<=user)|(?<=admin)|(?<=login)|(?<=proxy))pass(?![a-z])"
    # German, Dutch, Spanish, Portuguese, French, Swedish, Polish, Russian, and East Asian words;
    # Norwegian, Danish, Finnish, Czech, Hungarian, Turkish and Romanian, Bulgarian, Vietnamese
    "|kennwort|wachtwoord|contrase[\u00f1n]a|(?<![a-z])senha|mot[ _-]de[ _-]passe|l\u00f6senord"
    "|has\u0142o|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc"
    "|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638"
    "|passord|adgangskode|salasana|heslo|jelsz[\u00f3o]|parol[a\u0103]|\u015fifre"
    "|\u043f\u0430\u0440\u043e\u043b\u0430|m\u1eadt kh\u1ea9u"
    r"|(?:api|access|account|private|encryption|app|application|consumer)[_ -]?key"
    r"|(?:signing|master|shared|subscription|auth|session|deploy|fernet|hmac)[_ -]?key|ssh[_-]?key"
    r"|(?<![a-z0-9])auth|(?<=[?&;])sig|x-(?:amz|goog)-signature|sess(?:ion)?id|connect\.sid)"
)
# Names that are also ordinary words. They count only in a notation for a value, not in a sentence.
_WEAK = r"(?<![a-z0-9])(?:pass|pw|creds?)(?![a-z0-9_-])"
_SUFFIX = (
    r"(?:[_ -]?(?:\d{1,4}|value|key|id|hash|b64|base64|string|str|text|plain|env|s)(?![a-z0-9]))?"
)
_SECRET_NAME = re.compile(
    _NAMES + _SUFFIX + r"\Z|(?<![a-z0-9])creds?\Z|authorization\Z|(?:\A|set-)cookie\Z", re.I
)
# The beginnings of those parts as fixed strings, for a fast search.
_NAME_STARTS = re.compile(
    "pass|pw|psw|secret|token|cred|dsn|conn(?:ection)?[_ -]?str|api|app|acc|priv|encr|sign|master"
    "|shared|subs|auth|sess|deploy|ssh|fernet|hmac|sig|x-amz-s|x-goog-s|consumer|connect[.]"
    "|kennw|wachtw|contras|senha|mot[ _-]de|l\u00f6sen|has\u0142o|\u043f\u0430\u0440\u043e\u043b"
    "|\u5bc6[\u7801\u78bc]|\u30d1\u30b9|\ube44\ubc00|adgangsk|salasana|heslo|jelsz"
    "|parol[a\u0103]|\u015fifre|m\u1eadt kh"
)
_NAME = re.compile("(?:" + _NAMES + _SUFFIX + ")|(?P<weak>" + _WEAK + ")")

# In a URL: the password ends at the last @ before a slash, or else at the first one after it.
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
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS, and the key after it
    r"(?:[\s:,/|\"'=]{1,5}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))?"
    r"|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"  # GitHub
    r"|gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{16,}"  # GitLab
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
    r"|hooks\.slack\.com/services/[A-Za-z0-9/]{10,}"
    r"|discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,20}/[A-Za-z0-9_-]{20,}"
    r"|webhook\.office\.com/[A-Za-z0-9@/_-]{20,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"  # Stripe
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}"  # Google
    r"|sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
    r"|dapi[A-Za-z0-9]{32,}|dckr_pat_[A-Za-z0-9_-]{16,}|do[opr]_v1_[A-Za-z0-9]{32,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    # JSON web tokens, also encrypted ones.
    r"|(?<![_-])eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,4})"
)
_SHAPE_STARTS = re.compile(
    "AKIA|ASIA|AROA|AIDA|ABIA|ACCA|gh[opusr]_|github_pat_|gl|xox|xapp-|hooks[.]slack|discord"
    "|webhook[.]office|sk_|rk_|pk_"
    "|whsec_|AIza|ya29|GOCSPX|sk-|hf_|npm_|pypi-|dapi|dckr_|do[opr]_v1|SG[.]|eyJ"
)

# Words about secrets that would otherwise pass for one. They are documented, like the notations.
NOT_VALUES = frozenset(
    "2fa aes128 aes256 argon2 argon2id base32 base64 bcrypt2 ed25519 es256 hs256 hs512 http2 ipv4"
    " ipv6 md5 mfa2 oauth1 oauth2 p256 pbkdf2 pkcs1 pkcs8 pkcs12 rs256 rs512 rsa2048 rsa4096 s3"
    " sha1 sha2 sha256 sha384 sha512 utf8 utf-8 x509"
    " authentication authorization changed credential credentials denied disabled empty error"
    " expired failed failure header incorrect invalid missing refused rejected required scheme"
    " timeout token tokens unknown unset updated wrong".split()
)
_NOT_CREDENTIALS = r"(?!(?:%s)(?![A-Za-z0-9._~+/=%%-]))" % "|".join(sorted(NOT_VALUES))

_HEADER_HINTS = ("authorization", "bearer", "basic", "cookie")
_QUOTE = r"(?:\\{0,8}[\"'])"
# The whole value of the header: to its closing quote, or to the end of the line.
_HEADER = re.compile(
    r"((?:authorization|\bcookie|set-cookie)" + _QUOTE + r"?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}"
    r"(?:b(?=[\"'\\]))?" + _QUOTE + r"?(?!(?:\w{1,12}[ \t]{1,8})?\[removed\])"
    r"(?:(?:bearer|basic|digest|token|negotiate|apikey)[ \t]{1,8})?)"
    r"(?![\s\"'\\]|(?:none|null|true|false)\b)"
    r"[^\n\r\"'\\]+",
    re.I,
)
# The same with a list of quoted parameters, as of ``Digest`` and ``OAuth``.
_PARAMETERS = re.compile(
    r"(authorization" + _QUOTE + r"?[ \t]{0,8}(?:[:=,]|=>)[ \t]{0,8}"
    r"(?:b(?=[\"'\\]))?" + _QUOTE + r"?[\w-]{1,32}[ \t]{1,8})"
    r"(?:[\w-]{1,32}=(?:\\{0,8}\"[^\"\n]{0,2000}\"|[^\s,\"'\\]{1,256})(?:[ \t]{0,8},[ \t]{0,8})?)+"
    r"[^\n\r\"'\\]*",
    re.I,
)
# The scheme without its header, if the following text does not look like a word.
_SCHEME = re.compile(
    r"(\b(?:bearer|basic)(?:[ \t]|%20|\+){1,4})"
    + _NOT_CREDENTIALS
    + r"(?=[\w.~+/=%-]{0,40}(?:\d|(?-i:[a-z][A-Z])|=)|[A-Za-z0-9._~+/=%-]{24})"
    r"[A-Za-z0-9._~+/=%-]{4,}",
    re.I,
)
# The header in a sentence: the text after the scheme is a value unless it is a word about one.
_NAMED_SCHEME = re.compile(
    r"(authorization[ \t]{1,4}(?:header[ \t]{1,4})?(?:(?:is|was)[ \t]{1,4})?"
    r"(?:bearer|basic|digest|negotiate|apikey)[ \t]{1,4})"
    + _NOT_CREDENTIALS
    + r"[A-Za-z0-9._~+/=%-]{4,}",
    re.I,
)

# The server's own tokens: 16 letters and digits, and 32 bytes in URL-safe base64.
_TOKEN = re.compile(r"(?<=[a-z0-9]{16})-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
_NO_PART = re.compile(r"[A-Za-z0-9_-]")
# Tokens of Telegram's bots.
_BOT_TOKEN = re.compile(r"(?<=\d{8}):[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")
# Options of commands that are followed by a secret, or by a user name and a secret.
_COMMANDS = {
    "curl": "-u", "wget": "-u", "sshpass": "-p", "redis-cli": "-a", "mysql": "-p", "mariadb": "-p",
    "mongo": "-p", "docker login": "-p",
}  # fmt: skip
_OPTION = re.compile(
    r"(?<=[ \t])(-[upa]|--(?:proxy-)?user)([ \t]{1,4}|=|)([\"']?)(?!\[removed\]|=)([^\s\"']{1,256})"
)
_COMMAND = re.compile(r"(?<![\w-])(%s)" % "|".join(_COMMANDS), re.I)
_ORACLE = re.compile(
    r"(oracle:\w{1,10}:[^\s/@:\"']{1,64}/|\bsqlplus[ \t]{1,4}(?:-\w{1,8}[ \t]{1,4}){0,3}"
    r"[^\s/@:\"'-][^\s/@:\"']{0,64}/)(?!\[removed\])[^\s@\"']{1,256}(?=@|\s|\Z)",
    re.I,
)
# A line of PostgreSQL's password file: host, port, database, user and password.
_PGPASS = re.compile(
    r"^([\w.*-]{1,255}:(?:\d{4,5}|\*):[^:\s]{1,64}:[^:\s]{1,64}:)"
    r"(?!\S{0,256}\[removed\])\S{1,256}$",
    re.M,
)
# A user's password in a statement of SQL, which any other text calls an identification.
_IDENTIFIED = re.compile(
    r"(?P<head>\bidentified[ \t]{1,4}(?:with[ \t]{1,4}[^\s,;]{1,64}[ \t]{1,4})?(?:by|as)[ \t]{1,4}"
    r"(?:password[ \t]{1,4})?(?:values[ \t]{1,4})?)(?!\\{0,8}[\"']?\[removed\])"
    r"(?:(?P<quote>\\{0,8}[\"'])[^\"'\n\\]{1,256}(?P=quote)"
    r"|(?!values|password)(?P<word>[^\s\"',;()\\]{1,256}))",
    re.I,
)
_STATEMENT = re.compile(r"\b(?:create|alter|grant)\b[^;\n]{0,160}\Z", re.I)
# A long random-looking string after a separator of a name and a value.
_SEPARATED = re.compile("[=:\uff1d\uff1a][ \\t]{0,4}[\"'`]?(?P<value>[A-Za-z0-9+_=~.-]{20,})")
_PIECE = re.compile(r"[A-Za-z0-9+]{20,}")
_KIND = re.compile(r"[a-z]+|[A-Z]+|[0-9+]+")

# name = value in the notations of Python, JSON, YAML, shells, headers, URLs, connection strings.
_SEPARATOR = re.compile(
    r"(?:" + _QUOTE + r"|%22)?[ \t]{0,8}\]?[ \t]{0,8}"
    r"(?::[ \t]{0,4}(?:typing\.)?(?:str|bytes|any|optional|union|secretstr)\b[\w.\[\]| ,]{0,60}"
    r"=(?!=)|=>|:=|=(?!=)|:(?![:=])|%3[ad](?:%20|\+){0,4}(?:%22)?|[\uff1d\uff1a])[ \t]{0,16}"
    r"(?P<removed>[\[(]{0,2}[bruf]{0,2}\\{0,8}[\"']{0,3}\[removed\])?"
    r"(?P<opened>[\[(]{0,2})(?:[bruf]{0,2}(?=[\"'\\]))?"
    r"(?P<quote>\\{1,8}[\"']|\"\"\"|'''|[\"']|)"
)
# The other notations: the pattern before the name's part, and the pattern after the name.
_OTHERS = (
    (
        re.compile(r"<[\w:.-]{0,40}\Z"),
        re.compile(
            r"(?:[ \t]{1,4}[\w.:-]{1,40}=[\"'][^\"'<>\n]{0,200}[\"']){0,8}[ \t]{0,4}>"
            r"(?:<!\[cdata\[|\r?\n[ \t]{0,32}(?=[^<>\n]{1,256}\r?\n?[ \t]{0,32}</))?"
            r"(?![ \t]{0,32}\[removed\])(?P<value>[^<\n]+?)(?=\]\]>|[<\r\n]|\Z)"
        ),
    ),
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
    # A name and its value under names of their own, in JSON, YAML and XML.
    (
        re.compile(
            r"(?:name|key|header|variable)\\{0,8}[\"'][ \t]{0,4}:[ \t]{0,4}\\{0,8}[\"']"
            r"[\w.-]{0,60}\Z"
        ),
        re.compile(
            r"\\{0,8}[\"'][ \t]{0,4},[ \t\r\n]{0,40}\\{0,8}[\"']value\\{0,8}[\"']"
            r"[ \t]{0,4}:[ \t]{0,4}"
            r"(?P<quote>\\{0,8}[\"'])(?!\[removed\])(?P<value>[^\"'\n\\]+)"
        ),
    ),
    (
        re.compile(r"(?:name|key):[ \t]{1,4}[\"']?[\w.-]{0,60}\Z"),
        re.compile(
            r"[\"']?[ \t]{0,4}\r?\n[ \t]{1,40}value:[ \t]{1,4}[\"']?(?!\[removed\])"
            r"(?P<value>[^\s\"'|>][^\"'\r\n]*)"
        ),
    ),
    (
        re.compile(r"(?:name|key)=[\"'][\w.-]{0,60}\Z"),
        re.compile(
            r"[\"'](?:[ \t]{1,4}value=[\"'](?!\[removed\])(?P<value>[^\"'\n]+)"
            r"|(?:[ \t]{1,4}(?!value)[\w.:-]{1,40}=[\"'][^\"'<>\n]{0,100}[\"']){0,4}[ \t]{0,4}>"
            r"(?!\[removed\])(?P<content>[^<\n]+))"
        ),
    ),
)
# A long random-looking string next to the name of a secret. Keys of tasks have a hyphen there.
_BESIDE = re.compile(
    r"[\"'`(\[<]{0,3}[ \t,:]{1,4}(?:is|was|of|value|with|=)?[ \t:]{0,4}[\"'`(\[<]{0,3}"
    r"(?P<value>[A-Za-z0-9+_=~][A-Za-z0-9+/_=.~-]{19,})"
)
# A value in a sentence: "the password of ada was changed to …". An unquoted value must look like a
# secret.
_IN_SENTENCE = re.compile(
    r"(?:[ \t]{1,4}(?:for|of)[ \t]{1,4}(?:(?:the|user|account|role|host|database)[ \t]{1,4}){0,2}"
    r"(?:[^\s:=\"']{1,64}|'[^'\n]{1,200}'|\"[^\"\n]{1,200}\")"
    r"(?=:|[ \t]{1,4}(?:is|was)(?![\w-])))?"
    r"(?:[ \t]{1,4}(?:is|was|be|set|changed|reset|now|to|as|value)(?![\w-])){0,4}"
    r"(?:[ \t]{0,4}(?:(?P<colon>:)|=(?![=>])|=>|->|→|--?))?"
    r"[ \t]{1,8}(?P<quote>\\{1,8}[\"']|[\"'`]|)(?!\[removed\])"
)
# The end of a word after a colon that may be a value: the end of the line, or of a quoted one.
_END_OF_WORD = re.compile(r"[.!]?[\"'`)\]}]{0,3}[ \t]{0,8}(?:\r?\n|\\{1,8}[rn]|\Z|[,;])")
_WORD = re.compile(r"[^\W\d_]+(?:[_'-][^\W\d_]+){0,8}\Z")
# Before the name: the line reports a failure, and the word after the colon is its reason.
_FAILURE = re.compile(
    r"\b(?:no|not|wrong|invalid|incorrect|bad|weak|missing|without|expired|unknown|unable|could"
    r"|cannot|can't|couldn't|fail\w{0,4}|error|reject\w{0,4}|refus\w{0,4}|den(?:y|ied)"
    r"|reset\w{0,4}|chang\w{1,4}|updat\w{1,4}|check\w{0,4}|validat\w{1,4}|warning)\b[^\n]{0,80}\Z"
)
# In a ``.netrc`` file, any value after the login.
_LOGIN = re.compile(
    r"\b(?:machine[ \t]{1,4}\S{1,40}|default)[ \t]{1,4}login[ \t]{1,4}\S{1,40}[ \t]{1,4}\Z"
)
_LOGIN_VALUE = re.compile(r"[ \t]{1,4}(?!\[removed\])(?P<value>\S+)")
# Parsers report tokens that are not secrets.
_PARSED = re.compile(
    r"\b(?:unexpected|expected|illegal|unrecogni[sz]ed|syntax|parsed?|parser|lexer|next)"
    r"[ \t]{1,4}\Z"
)
_DIGIT_OR_SYMBOL = re.compile(r"[0-9!@#$%^&*+=~?]")
# Numbers, dates, versions, addresses, durations.
_MEASURE = re.compile(r"[-+]?v?\d[\d.,:/+-]*(?:t[\d:.]+z?)?[a-z%]{0,4}\Z", re.I)
_LONG_NUMBER = re.compile(r"\d{4,}\Z")
_FILE = re.compile(
    r"[\w.-]+\.(?:py|json|ya?ml|toml|txt|cfg|conf|ini|env|pem|key|crt)(?::\d+)?\Z", re.I
)
_SETTING = re.compile(r"[A-Za-z_][\w.-]{0,60}=[^=]")
# The value is alone on the line below the name.
_BELOW = re.compile(
    r"(?:\r?\n[ \t]{0,16}){1,2}(?P<quote>[\"'`]?)(?!\[removed\])"
    r"(?P<value>[^\s\"'`(]{4,256})(?P=quote)[ \t]{0,4}(?=\r?\n|\Z)"
)
# The value is a block of indented lines, in YAML.
_BLOCK = re.compile(r"[|>](?:[+-]?[1-9]?|[1-9][+-])[ \t]{0,4}(?:#[^\n]{0,80})?\r?\n")
_LINE_OF_BLOCK = re.compile(r"([ \t]*)([^\n]*?)\r?(?:\n|\Z)")
# The line of such a name if any word below it is a value: a prompt or a label, and not code.
_PROMPT = re.compile(r"(?:\A|\n)[ \t>*-]{0,8}(?:\w{1,20} ){0,3}\w{0,20}\Z")
_PASSWORD_NAME = re.compile(
    "pass|pwd|psw|kennw|wachtw|contras|senha|mot|l\u00f6sen|has\u0142o|\u043f\u0430\u0440"
    "|\u5bc6|\u30d1\u30b9|\ube44\ubc00|adgang|salas|heslo|jelsz|parol|\u015fifre|m\u1eadt"
)
_CODE_WORD = re.compile(
    r"(?:and|as|assert|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|if"
    r"|import|in|is|lambda|not|or|pass|raise|return|try|while|with|yield)\Z"
)
# A data source is a secret if it contains a user, an address or settings.
_SOURCE_NAME = re.compile(r"dsn|conn(?:ection)?[_ -]?str", re.I)
_ADDRESS = re.compile(r"@|://|=")
# The end of a quoted value is searched for in code, that of an unquoted value by this pattern:
# delimiters belong to it unless the following text looks like the next item.
_BARE_VALUE = re.compile(
    r"[^\s\"'&<>,;)\]}|]+(?:[,;)\]}|](?![\s,;)\]}|\"'&<>]|[\w.-]{1,40}[ \t]{0,3}[=:]|\Z)"
    r"[^\s\"'&<>,;)\]}|]+)*"
)
_NOT_A_VALUE = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|bytes|int|bool|float|any|string|object|self"
    r"|(?:typing\.)?optional\[.*|\*+|x{3,}|\.\.\.|\\[nrt].{0,2}|%[sr]|\{[\w.!:]{0,80}\}?"
    r"|(?-i:\$\{?[A-Z_][A-Z0-9_]{0,80}\}?)|[\[({]+|-?\d{1,3}|0\.\d+)[.:,;)\]}]{0,4}\Z"
    # Calls, as in lines of source.
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
    # At the beginning of a line, after the margin of exception groups.
    r"^(?P<margin>[ \t|]*)File \"[^\n]*\", line \d+"
    # Inside quotes, where the quotes around the path may be escaped in turn.
    r"|(?:(?<=[\"'])|(?<=\\n))(?P<quoted>[ \t|]*)File \\*\"[^\"\n]*\", line \d+",
    re.M,
)
_SOURCE_OF_WARNING = re.compile(r"(?<=\n)  \S[^\n]*\n?\Z")
_END_OF_LINE = re.compile(r"\\+n|\n")
_INDENT = re.compile(r"[ \t|]*")
_INPUTS = re.compile(r"(\n(?:(?:kw)?args|Task):[ \t]*)([\s\S]*?)(?=\nkwargs:|\Z)")


# Escape sequences of terminals, also as they are written in quotes.
_SEQUENCE = re.compile(
    r"(?:(?:\x1b|\\{1,8}(?:x1b|u001b|033|e))\[|\x9b)[0-?]{0,40}[ -/]{0,4}[@-~]"
    # Those that choose a set of characters, as ``tput sgr0`` does, and those with a text.
    r"|\x1b[(-/][0-~]|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)",
    re.I,
)
_SEQUENCE_STARTS = ("\x1b", "\x9b", "\\x1b", "\\x1B", "\\u001", "\\033", "\\e[")
# A letter and its marks, or the parts of a Korean syllable. The number of marks is bounded, because
# putting many of them into order takes long.
_DECOMPOSED = re.compile(
    "[^\\W\\d_][\u0300-\u036f\u3099\u309a]{1,3}|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"
)
_MARKS = re.compile("[\u0300-\u036f\u1100-\u1112\u3099\u309a]")
_SPACES = re.compile("[\xa0\u2007\u202f]")
# In structured data: the keys that hold a name, and those that hold its value.
_NAMING = ("name", "Name", "key", "Key", "header", "field", "variable", "parameter")
_VALUES = ("value", "Value", "values", "Values")
_NUMBERS = (bool, int, float, type(None))
_HEADER_NAME = re.compile(r"authorization\Z|(?:set-)?cookie\Z|x-", re.I)


# ---------------------------------------------------------------------------------- replacements


def _composed(match: "re.Match[str]") -> str:
    return normalize("NFC", match.group())


def _without_identification(match: "re.Match[str]") -> str:
    before = match.string[max(0, match.start() - 200) : match.start()]
    head, quote = match.group("head"), match.group("quote") or ""
    is_upper = head.startswith("IDENTIFIED") and quote
    return (
        head + quote + REMOVED + quote if is_upper or _STATEMENT.search(before) else match.group()
    )


def _is_header(name: Any) -> bool:
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    return is_secret_name(name) and _HEADER_NAME.match(text) is not None


def _is_pair(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], (str, bytes))


def _without_user(match: "re.Match[str]") -> str:
    return match.group(1) + REMOVED + "@"


def _lower(text: str) -> str:
    """Returns ``text`` in lower case, with every character at the same position."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if c.isascii() else c for c in text)


def _without_shapes(text: str) -> str:
    pieces: List[str] = []
    position = 0
    match = _SHAPE_STARTS.search(text)
    while match is not None:
        shape = _SHAPE.match(text, match.start())
        if shape is not None:
            pieces += text[position : shape.start()], REMOVED
            position = shape.end()
        match = _SHAPE_STARTS.search(text, match.end() if shape is None else position)
    return "".join([*pieces, text[position:]]) if pieces else text


def _without_tokens(text: str) -> str:
    pieces: List[str] = []
    position = 0
    for match in _TOKEN.finditer(text):
        start = match.start() - 16
        is_whole = start <= position or not _NO_PART.match(text, start - 1)
        if is_whole and start >= position and _is_noise(match.group()):
            pieces += text[position:start], REMOVED
            position = match.end()
    for match in _BOT_TOKEN.finditer(text, position):
        if match.start() >= position and _is_noise(match.group()):
            pieces += text[position : match.start() + 1], REMOVED
            position = match.end()
    return "".join([*pieces, text[position:]]) if pieces else text


def _without_option(match: "re.Match[str]") -> str:
    option, gap, quote, value = match.groups()
    before = match.string[max(0, match.start() - 200) : match.start()].rpartition("\n")[2]
    commands = _COMMAND.findall(before)
    if not commands or _COMMANDS[commands[-1].lower()] != ("-u" if "user" in option else option):
        return match.group()
    head = option + gap + quote
    if option == "-u" or "user" in option:
        user, colon, secret = value.partition(":")
        return head + user + colon + REMOVED if colon and secret else match.group()
    # A password of MySQL follows its option directly, unlike those of others.
    if commands[-1].lower() in ("mysql", "mariadb") and gap:
        return match.group()
    return head + REMOVED


def _without_noise(text: str) -> str:
    """Removes long random-looking strings that are the value of any name."""
    pieces: List[str] = []
    position = 0
    for match in _SEPARATED.finditer(text):
        if any(_looks_random(piece) for piece in _PIECE.findall(match.group("value"))):
            pieces += text[position : match.start("value")], REMOVED
            position = match.end("value")
    return "".join([*pieces, text[position:]]) if pieces else text


def _looks_random(piece: str) -> bool:
    """True if upper-case letters, lower-case letters and digits alternate as in a random string."""
    if piece.islower() or piece.isupper() or not _is_noise(piece):
        return False
    kinds = _KIND.findall(piece)
    digits = sum(not kind.isalpha() for kind in kinds)
    return digits >= 2 and len(kinds) > 0.45 * len(piece)


def _without_values(text: str, lowered: str) -> str:
    """Returns the text without the values of secrets; ``lowered`` is the text in lower case."""
    pieces: List[str] = []
    position = 0
    match = _NAME_STARTS.search(lowered)
    while match is not None:
        name = _NAME.match(lowered, match.start())
        name_end = match.end()
        if name is not None:
            name_end = name.end()
            for start, stop in _values_behind(text, lowered, name):
                pieces += text[position:start], REMOVED
                position = name_end = stop
        match = _NAME_STARTS.search(lowered, name_end)
    return "".join([*pieces, text[position:]]) if pieces else text


def _values_behind(text: str, lowered: str, name: "re.Match[str]") -> Iterator[Tuple[int, int]]:
    separator = _SEPARATOR.match(lowered, name.end())
    if name.group("weak") and not _is_value_of_weak_name(text, separator):
        return
    if separator is not None:
        if separator.group("removed"):
            return
        start, quote = separator.end(), separator.group("quote")
        block = None if quote else _BLOCK.match(text, start)
        if block is not None:
            value_of_block = _span_of_block(text, name.start(), block.end())
            if value_of_block is not None:
                yield value_of_block
            return
        stop = _end_of_value(text, start, quote)
        below = _BELOW.match(text, start) if stop == start and not quote else None
        if below is not None:
            value = below.group("value")
            if _is_value_in_sentence(name.group(), value, "") or (
                _is_word_below(name.group(), value, below)
                and _is_prompt(lowered[max(name.start() - 110, 0) : name.start()])
            ):
                yield below.span("value")
            return
        if stop > start and (quote or _is_value(name.group(), text[start:stop])):
            yield start, stop
            # The other elements of a list or tuple.
            listed = separator.group("opened") and quote
            another = _ANOTHER.match(text, stop + len(quote)) if listed else None
            while another is not None:
                start, quote = another.end(), another.group("quote")
                stop = _end_of_value(text, start, quote)
                if stop > start:
                    yield start, stop
                another = _ANOTHER.match(text, stop + len(quote))
            return
    in_front = lowered[max(name.start() - 110, 0) : name.start()]
    for name_prefix, name_end in _OTHERS:
        value = name_end.match(lowered, name.end())
        if value is not None and name_prefix.search(in_front):
            yield value.span("value" if value.group("value") else "content")
            return
    in_sentence = None
    if separator is None:
        in_sentence = _value_in_sentence(text, lowered, name, in_front)
    value = _BESIDE.match(text, name.end())
    if in_sentence is not None:
        yield in_sentence
    elif value is not None and _is_noise(value.group("value")):
        yield value.span("value")


def _span_of_block(text: str, name: int, position: int) -> Optional[Tuple[int, int]]:
    """Returns the span of the lines from here that are indented further than that of the name."""
    line = _LINE_OF_BLOCK.match(text, text.rfind("\n", 0, name) + 1)
    margin = len(line.group(1)) if line else 0
    start = stop = None
    while position < len(text):
        line = _LINE_OF_BLOCK.match(text, position)
        if line is None or (line.group(2) and len(line.group(1)) <= margin):
            break
        if line.group(2):
            if start is None and text.startswith(REMOVED, line.start(2)):
                return None
            start = line.start(2) if start is None else start
            stop = line.end(2)
        position = line.end()
    return None if start is None or stop is None else (start, stop)


def _is_value_of_weak_name(text: str, separator: "Optional[re.Match[str]]") -> bool:
    """True for a separator and a value that is neither a measure nor a word after a colon."""
    if separator is None:
        return False
    quote = separator.group("quote")
    # The beginning suffices. With many such names in a row, each would otherwise scan the whole
    # rest.
    start = text[separator.end() : separator.end() + 200]
    value = start[: _end_of_value(start, 0, quote)]
    if _MEASURE.match(value):
        return False
    has_equals = "=" in separator.group() and ":" not in separator.group()
    return bool(quote) or has_equals or _DIGIT_OR_SYMBOL.search(value) is not None


def _value_in_sentence(
    text: str, lowered: str, name: "re.Match[str]", in_front: str
) -> Optional[Tuple[int, int]]:
    """Returns the span of the value that a sentence gives for this name; None if there is none."""
    login = _LOGIN_VALUE.match(text, name.end())
    if login is not None and _LOGIN.search(in_front):
        return login.span("value")
    match = _IN_SENTENCE.match(lowered, name.end())
    if match is None or (name.group().startswith("token") and _PARSED.search(in_front)):
        return None
    start, quote = match.end(), match.group("quote")
    stop = _end_of_value(text, start, quote)
    if not quote:
        while stop > start and text[stop - 1] in ".:!?":
            stop -= 1  # of the sentence
    if quote:
        is_value = stop > start and _is_value(name.group(), text[start:stop])
    else:
        is_value = _is_value_in_sentence(name.group(), text[start:stop], text[stop : stop + 1]) or (
            match.group("colon") is not None
            and _END_OF_WORD.match(text, stop) is not None
            and _is_word(name.group(), text[start:stop])
            and not _FAILURE.search(in_front)
        )
    return (start, stop) if is_value else None


def _end_of_value(text: str, position: int, quote: str) -> int:
    """Returns the end of the value.

    If its closing quote is missing, the value ends with the line.
    """
    if quote in _QUOTED:
        matched = _QUOTED[quote].match(text, position)
    elif quote:
        stop = text.find(quote, position)
        line = len(text) if len(quote) == 3 and "\\" not in quote else text.find("\n", position)
        line = len(text) if line < 0 else line
        return stop if 0 <= stop < line else line
    else:
        matched = _BARE_VALUE.match(text, position)
    return matched.end() if matched else position


def _is_value(name: str, value: str) -> bool:
    """True if unquoted text is a value, and not code or a word about the name."""
    if _NOT_A_VALUE.match(value):
        return False
    if _SOURCE_NAME.match(name) and not _ADDRESS.search(value):
        return False
    is_about_a_place = name.lower().startswith(("pwd", "cred"))
    return not (is_about_a_place and _PLACE.match(value))


def _is_value_in_sentence(name: str, value: str, name_end: str) -> bool:
    """True if a word after the name of a secret is a secret, and not the rest of the sentence."""
    if (
        len(value) < 4
        or value[0] in "-/~.<([{"
        or "://" in value
        or name_end == "("
        or "[removed" in value
    ):
        return False
    if value.lower() in NOT_VALUES or _FILE.match(value) or _SETTING.match(value + name_end):
        return False
    if _MEASURE.match(value):
        return name.startswith(("pass", "pwd", "psw")) and _LONG_NUMBER.match(value) is not None
    return _DIGIT_OR_SYMBOL.search(value) is not None and not _NOT_A_VALUE.match(value)


def _is_word_below(name: str, value: str, below: "re.Match[str]") -> bool:
    """True if the line directly below the name of a password is one word that may be its value."""
    return below.group().count("\n") == 1 and value.isalpha() and _is_word(name, value)


def _is_word(name: str, value: str) -> bool:
    """True for a name of a password and a word that may be its value."""
    return (
        _PASSWORD_NAME.match(name) is not None
        and len(value) >= 4
        and _WORD.match(value) is not None
        and value.lower() not in NOT_VALUES
        and not _CODE_WORD.match(value)
        and not _NOT_A_VALUE.match(value)
    )


def _is_prompt(in_front: str) -> bool:
    """True if the text before a name is the beginning of its line, and not of a statement."""
    match = _PROMPT.search(in_front)
    return match is not None and not any(map(_CODE_WORD.match, match.group().split()))


def _is_noise(value: str) -> bool:
    kinds = sum(bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return kinds == 3 or re.match(r"[0-9a-fA-F]{32,}\Z", value) is not None


def _without_inputs(match: "re.Match[str]") -> str:
    title, value = match.groups()
    return str(title + (remove_arguments(value) if "Task" in title else REMOVED))


def _is_empty(value: Any) -> bool:
    return value is None or isinstance(value, (bool, float)) or value in ("", 0, REMOVED)


def _skip_indented(text: str, position: int, newline: str, margin: int) -> int:
    """Returns the end of the lines from here that are indented further than ``margin``."""
    stop = position
    while position < len(text):
        indent = _INDENT.match(text, position)
        after = indent.end() if indent else position
        end = _find_newline(text, after, newline)
        following = len(text) if end < 0 else end + len(newline)
        if after - position > margin and after != end:
            stop = following
        elif after != end:
            break
        # An empty line is kept unless more removed text follows. A quoted traceback ends at the
        # real end of the line at the latest.
        if end < 0 or (newline != "\n" and "\n" in text[after:following]):
            break
        position = following
    return stop


def _find_newline(text: str, position: int, newline: str) -> int:
    """Returns the position of the next newline that is written exactly in this notation."""
    while True:
        end = text.find(newline, position)
        if newline == "\n" or end <= 0 or text[end - 1] != "\\":
            return end
        position = end + 1  # an escape in the source, which has more backslashes
