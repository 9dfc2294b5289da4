"""What may be shown of a completion: keys are not, ordinary words are."""

from __future__ import annotations

import time

import pytest

from vario.surfaces.privacy import MASK, MOST, NAMED, SECRETS, SHOWN, head_of, masked, masked_tokens, shown

LONG = "Ab3dEf6hIj9kLm2n"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join([LONG * 4] * 12) + "\n-----END RSA PRIVATE KEY-----"
KEYS = {
    "private key": PEM,
    "private key, cut": PEM[:300],
    "private key, new": PEM.replace("RSA ", ""),
    "model host": f"sk-{LONG}{LONG}{LONG}",
    "model host, project": f"sk-proj-{LONG}-{LONG}_{LONG}",
    "model host, version": f"sk-ant-api03-{LONG}-{LONG}",
    "model host, small letters": "sk-" + "abcdefghijklmnopqrstuvwx",
    "payments": "sk_live_" + LONG + LONG[:8],
    "payments, restricted": "rk_test_" + LONG + LONG[:8],
    "hub": "hf_" + LONG * 2,
    "code host": "ghp_" + LONG * 2 + "abcd",
    "code host, server": "ghs_" + LONG * 2 + "abcd",
    "code host, fine": "github_pat_11ABCDEFG0" + LONG + "_" + LONG,
    "other code host": "glpat-" + LONG + "abcd",
    "cloud": "AKIA" + "ABCDEFGH12345678",
    "cloud, temporary": "ASIA" + "ABCDEFGH12345678",
    "other cloud": "AIza" + LONG * 2 + "abc",
    "chat": "xoxb-1234567890-" + LONG,
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}
"""Each by itself; the parts of a longer one must be gone too."""
HELD = {
    "user:hunter2hunter2": "postgres://user:hunter2hunter2@db.example.org:5432/x",
    f"{LONG}{LONG}": f"Authorization: Bearer {LONG}{LONG}==",
    "hunter2hunter2": "password: hunter2hunter2",
    "correct-horse-battery": 'password = "correct-horse-battery"',
    "correcthorsebattery": "export DB_PASSWORD=correcthorsebattery",
    "0123456789abcdef": "{'api_key': '0123456789abcdef'}",
    "f00dfacecafe1234": 'OPENAI_API_KEY="f00dfacecafe1234"',
    "s3cr3t-s4uce-9": "client_secret=s3cr3t-s4uce-9&scope=all",
    "tok3n-0f-th3-d4y": "access_token: tok3n-0f-th3-d4y",
    "Tr0ub4dor&3xyz": "passwd=Tr0ub4dor&3xyz",
}
"""What stands behind a name, or inside an address."""
PROSE = (
    "The first token: understanding. Its secret: perseverance, and the password: unforgettable.",
    "The standard bearer internationalisation committee met at 10:30 (see https://example.org/a/b?c=d#e).",
    "A risk-management-and-compliance-officer who skis; the task-specific-instruction-tuning-set; desk-research.",
    "Tokens: 1024 per second. Total tokens = 123456789. There is no secret to it.",
    "Write to jane.doe@example.org or call +49 30 901820. Meet at 52.520008, 13.404954.",
    "sk-learn is scikit-learn; pk and rk are short names. Dial *123#. xoxo.",
    "密码学是一门研究信息安全的学科。令牌:理解。",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixes 550e8400-e29b-41d4-a716-446655440000",
)
CODE = (
    "tokens = tokenizer.encode(text, add_special_tokens=False)\nnext_token = logits[:, -1].argmax(dim=-1)",
    "def check(password: Optional[str] = None, api_key: SecretStr | None = None) -> bool:\n    return password == expected_password",
    "num_tokens=len(input_ids); max_new_tokens=1024; token_type_ids = torch.zeros_like(input_ids)",
    "ALTER TABLE t ADD CONSTRAINT pk_user_account_settings PRIMARY KEY (id); SELECT sk_customer_dimension_key",
    "secret = os.environ['NAME']\ntoken = get_token(user, 3)\nif token == end_of_text: break",
    "for i, token in enumerate(tokens):\n    counts[token] += 1\nsecret_santa = random.shuffle(people)",
    'tokenizer = "bert-base-uncased-v1"; tokenizer_name: gpt2-medium-355m',
    "x = 0xDEADBEEFDEADBEEF; url = 'http://localhost:8080/api/v1/tokens?limit=100'",
    "hf_hub_download(repo_id='a/b'); AIzaSchema; ghp = 3; eyJ = base64",
)
MATHS = (
    r"\boxed{\frac{12345678901234567890}{98765432109876543210}} = 0.1249999988609375",
    "Let s = 3.14159265358979323846264338327950288419716939937510 and p:q = 2:3, so sk = s*k and pk-rk = 16.",
    "12345678901234567890123456789012345678901234567890 mod 97 = 31, since 10^2 = 3 (mod 97)",
    "a_{n+1} = a_n + 2; sum_{k=1}^{n} k = n(n+1)/2; P(A|B) = P(B|A)P(A)/P(B)",
    "<think>\nLet me see: x:y = 12:34, x+y = 46\n</think>\n#### 46",
)


@pytest.mark.parametrize("what", KEYS)
def test_a_key_is_not_shown(what: str) -> None:
    key = KEYS[what]
    for text in (key, f"it is {key}.", f'"{key}"', f"({key})", f"a\n{key}\nb", f"x={key}"):
        seen = masked(text)
        assert MASK in seen
        assert key not in seen
        assert LONG not in seen
        assert key[-8:] not in seen


@pytest.mark.parametrize("key", HELD)
def test_what_a_name_gives_away_is_not_shown(key: str) -> None:
    text = HELD[key]
    seen = masked(f"before {text} after")
    assert MASK in seen
    assert key not in seen
    assert seen.startswith("before ")
    assert seen.endswith(" after")


def test_every_pattern_has_a_key_here() -> None:
    texts = [*KEYS.values(), *HELD.values()]
    for pattern in (*SECRETS, NAMED):
        assert any(pattern.search(text) for text in texts), pattern.pattern


@pytest.mark.parametrize("text", [*PROSE, *CODE, *MATHS])
def test_ordinary_words_stay(text: str) -> None:
    assert masked(text) == text


def test_no_control_of_the_terminal() -> None:
    seen = shown("a\x1b[31mred\x07\u202etxet\x9b2J\tb\r\nc\x00\x85d\u2028e")
    assert not any(ord(c) < 32 and c != "\n" for c in seen)
    assert not set(seen) & set("\x1b\x07\u202e\x9b\x00\x85\u2028\t")
    assert seen.splitlines()[1:] == ["c?", "d", "e"]


def test_a_long_text_is_cut_in_its_middle() -> None:
    text = "".join(f"{i:05}," for i in range(1000))
    seen = shown(text)
    assert seen.startswith(text[:800])
    assert seen.endswith(text[-400:])
    assert f"[... {len(text) - SHOWN} characters left out ...]" in seen
    assert shown(text, whole=True) == text
    assert shown("x" * SHOWN) == "x" * SHOWN


@pytest.mark.parametrize("key", [KEYS["model host, project"], KEYS["web token"], KEYS["hub"]])
def test_no_cut_divides_a_key(key: str) -> None:
    """Wherever it stands to a cut, at the head or at the tail, nothing of it is shown."""
    for before in range(SHOWN * 2 // 3 - len(key), SHOWN * 2 // 3 + 1):
        assert key[:12] not in shown("x " * (before // 2) + key + " y" * 1000)
    for after in range(SHOWN // 3 - len(key), SHOWN // 3 + 1):
        seen = shown("x " * 1000 + key + " y" * (after // 2))
        assert key[-12:] not in seen
    text = "x" * (MOST - 20) + " " + key
    assert key[:12] not in head_of(text + " y" * 1000)
    assert len(head_of("x" * (2 * MOST))) == MOST


def test_a_key_in_pieces_is_masked_in_its_tokens() -> None:
    tokens = ["The", " key", " is", " sk", "-", "Ab3dEf6h", "Ij9kLm2nAb", "3dEf6h", ".", " Bye", 7, None]
    seen = masked_tokens(tokens)
    assert seen[:3] == tokens[:3]
    assert seen[8:] == tokens[8:]
    assert all(token == MASK for token in seen[3:8])
    tokens = ["pass", "word", ":", " hunter", "2", "hunter2", " ok"]
    assert masked_tokens(tokens) == ["pass", "word", ":", MASK, MASK, MASK, " ok"]
    plain: list[object] = ["The", " first", " token", ":", " understanding", 3, 4.5]
    assert masked_tokens(plain) == plain


@pytest.mark.parametrize(
    "unit", ["eyJ-", "sk-", "sk-a-", "eyJaaaaaaaaa.", "-----BEGIN ", "token=", "password:'", "://a:", "bearer ", "api_key_", "token", "token \n", "xoxb-", "a"]
)  # fmt: skip
def test_no_text_takes_long(unit: str) -> None:
    text = unit * (MOST // len(unit))
    began = time.perf_counter()
    masked(text)
    assert time.perf_counter() - began < 2.0
