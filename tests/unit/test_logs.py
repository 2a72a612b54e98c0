"""One line, one object, bounded; what looks like a secret is struck out; libraries are calm."""

import base64
import json
import logging
import re
import subprocess
import sys
from typing import Any

import pytest

from sandhold import logs


def line(message: str = "words", *args: object, exc_info: Any = None, **extra: object) -> dict[str, Any]:
    record = logging.getLogger("sandhold.test").makeRecord(
        "sandhold.test", logging.INFO, "file.py", 1, message, args, exc_info, extra=extra or None
    )
    text = logs.JsonLines().format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_fields_stand_in_a_fixed_order_and_what_it_is_about_is_said_once() -> None:
    with logs.about(kind="SandboxSession", namespace="a", name="quill", uid="u-1", **{"pass": "b-7"}):
        found = line("words of %s", "two", reason="Ready", count=3)
    assert list(found) == [
        "ts", "level", "logger", "msg", "kind", "namespace", "name", "uid", "pass", "reason", "count",
    ]  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["ts"])
    assert found["msg"] == "words of two"
    assert found["count"] == 3
    assert "kind" not in line(), "what was said of one object does not stay"


def test_what_is_said_of_it_can_be_narrowed_and_is_given_back() -> None:
    with logs.about(kind="Pod", name="one"):
        with logs.about(name="two", uid=None):
            inner = line()
        assert (inner["kind"], inner["name"]) == ("Pod", "two")
        assert "uid" not in inner
        assert line()["name"] == "one"


def test_the_standard_fields_cannot_be_taken_by_others() -> None:
    assert line(ts="1970", logger="forged")["ts"] > "2020"


def test_no_line_is_long() -> None:
    found = line("x" * 100_000, error="y" * 100_000, **{f"f{number}": "z" * 5000 for number in range(200)})
    assert len(json.dumps(found)) < 50_000
    assert found["msg"].startswith("xxx")
    assert found["msg"].endswith("… (100000 characters)")
    assert found["error"].endswith("… (100000 characters)")


def test_the_end_of_a_long_trace_is_kept() -> None:
    def deep(number: int) -> None:
        if number:
            deep(number - 1)
        raise ValueError("the cause" + "!" * 3000)

    try:
        deep(200)
    except ValueError:
        found = line(exc_info=sys.exc_info())
    assert found["trace"].endswith("!")
    assert len(found["trace"]) <= logs.LONGEST_TRACE + 1


def grant() -> str:
    payload = base64.urlsafe_b64encode(b'{"v":1,"installation":"i","podUid":"u"}' * 12).rstrip(b"=")
    return f"{payload.decode()}.{'A' * 86}"


SECRETS = [
    grant(),
    f"eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.{'b' * 600}.{'c' * 340}",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG",
]


def raising(words: str) -> None:
    raise ValueError(words)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [0, 2040, 2048])
def test_what_looks_like_a_secret_is_struck_out_wherever_the_line_is_cut(secret: str, before: int) -> None:
    try:
        raising(secret)
    except ValueError:
        found = line(
            " " * before + secret, header=f"Authorization: {secret}", body={"grant": secret}, exc_info=sys.exc_info()
        )
    text = json.dumps(found)
    assert logs.REMOVED in text
    for part in (secret, *re.findall(r"[A-Za-z0-9+/_-]{18,}", secret)):
        assert json.dumps(part)[1:-1] not in text


def test_a_bearer_token_of_any_form_is_struck_out() -> None:
    assert line("header Bearer abc.def-123 end")["msg"] == f"header Bearer {logs.REMOVED} end"


def test_values_that_json_cannot_say_become_words() -> None:
    found = line(nothing=None, number=float("nan"), thing=object, surrogate="\udcff", flag=True)
    assert found["nothing"] is None
    assert found["number"] == "nan"
    assert found["surrogate"] == "?"
    assert found["flag"] is True


def test_words_that_do_not_fit_their_arguments_are_not_lost() -> None:
    assert line("%d pods", "many")["msg"] == "%d pods ('many',)"


def test_text_for_people_is_one_line_and_cannot_be_forged() -> None:
    record = logging.getLogger("sandhold.test").makeRecord(
        "sandhold.test", logging.WARNING, "f", 1, "two\nlines", (), None, extra={"error": "a\x1b[31mb", "n": 1}
    )
    text = logs.TextLines().format(record)
    assert "\n" not in text
    assert "\x1b" not in text
    assert text.endswith('WARNING  sandhold.test: "two\\nlines" error="a\\u001b[31mb" n=1')


def test_kopf_repeating_a_request_is_no_error_and_our_own_errors_are() -> None:
    for name, level, wanted in (
        ("kopf._cogs.clients.api", logging.ERROR, "WARNING"),
        ("kopf.objects", logging.CRITICAL, "WARNING"),
        ("kopf.objects", logging.INFO, "INFO"),
        ("kopfschmerz", logging.ERROR, "ERROR"),
        ("sandhold.handlers", logging.ERROR, "ERROR"),
    ):
        record = logging.makeLogRecord({"name": name, "levelno": level, "levelname": logging.getLevelName(level)})
        assert logs.calm(record)
        assert record.levelname == wanted


def run(form: str) -> list[str]:
    script = (
        "import logging, warnings\n"
        "from sandhold import logs\n"
        f"logs.configure('debug', {form!r})\n"
        "logging.getLogger('sandhold.x').debug('ours')\n"
        "logging.getLogger('botocore.auth').debug('a credential')\n"
        "logging.getLogger('aiohttp.access').info('chatter')\n"
        "logging.getLogger('aiohttp.client').warning('told')\n"
        "warnings.warn('deprecated', DeprecationWarning, stacklevel=1)\n"
        "raise RuntimeError('crash')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_whole_program_says_nothing_but_lines_and_libraries_are_quiet() -> None:
    lines = [json.loads(text) for text in run("json")]
    assert [(each["logger"], each["level"]) for each in lines] == [
        ("sandhold.x", "DEBUG"),
        ("aiohttp.client", "WARNING"),
        ("py.warnings", "WARNING"),
        ("sandhold", "CRITICAL"),
    ]
    assert lines[-1]["trace"].endswith("RuntimeError: crash")


def test_the_same_program_in_text_for_people() -> None:
    lines = run("text")
    assert lines[0].endswith("DEBUG    sandhold.x: ours")
    assert lines[-1] == "    RuntimeError: crash"
