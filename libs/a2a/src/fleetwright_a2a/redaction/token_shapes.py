"""The shapes of tokens that providers document or that scanners of secrets know, as expressions with linear time.

Each entry has lower-case substrings and an expression, and every match of the expression needs one of the substrings.
"""

import re
from typing import Final

Shape = tuple[tuple[str, ...], str]

_PREFIXES: Final = (
    *("glpat-", "glptt-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glft-", "glffct-", "glsoat-", "glagent-", "glimt-"),
    *("gloas-", "xai-", "gsk_", "pplx-", "r8_", "tvly-", "pcsk_", "lsv2_pt_", "lsv2_sk_"),
    *("hvs.", "hvb.", "hvr.", "dckr_pat_", "dckr_oat_", "doo_v1_", "dor_v1_", "rubygems_", "nfp_"),
    *("shpat_", "shpca_", "shppa_", "shpss_", "sq0atp-", "sq0csp-"),
    *("lin_api_", "lin_oauth_", "ntn_", "figd_", "figoh_", "PMAK-", "ATATT3", "ATCTT3"),
    *("glc_", "glsa_", "sntrys_", "sntryu_", "NRAK-", "NRJS-", "dp.pt.", "dp.st.", "dp.ct.", "dp.sa."),
    *("pscale_tkn_", "pscale_oauth_", "pscale_pw_", "sbp_", "sb_secret_", "fo1_", "fm1r_", "fm2_", "HRKU-"),
    *("CCIPAT_", "CCIPRJ_", "bkua_", "AGE-SECRET-KEY-1", "ops_eyJ", "dt0c01.", "dt0s01.", "dt0s16.", "hf_oauth_"),
)
"""The beginnings of tokens of GitLab, xAI, Groq, Perplexity, Replicate, Tavily, Pinecone, LangSmith, Vault, Docker,
DigitalOcean, RubyGems, Netlify, Shopify, Square, Linear, Notion, Figma, Postman, Atlassian, Grafana, Sentry, New Relic,
Doppler, PlanetScale, Supabase, Fly, Heroku, CircleCI, Buildkite, age, 1Password, Dynatrace and Hugging Face. At least
16 characters follow.
"""
_UUID: Final = "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"
# The time is linear only if no token begins inside one that was scanned in vain. Therefore nothing follows a run
# without a limit that may contain the beginning of a token.
TOKENS: Final = (
    # Models, search and tools of agents: Fireworks, Jina, Firecrawl, E2B, Vercel, NVIDIA, Together, Weights & Biases,
    # Bedrock (two), LangSmith, Brave, Cerebras and LlamaIndex.
    *("fw_[A-Za-z0-9]{22,}+", "jina_[A-Za-z0-9]{32,}+", "fc-[a-f0-9]{32}", "e2b_[a-f0-9]{40}", "vck_[A-Za-z0-9]{24,}+"),
    *("nvapi-[A-Za-z0-9_-]{60,}+", "tgp_v1_[A-Za-z0-9_-]{40,}+", "wandb_v1_[A-Za-z0-9_]{60,}+", "ls__[a-f0-9]{32}"),
    *("bedrock-api-key-YmVkcm9jay[A-Za-z0-9+/=]{20,}+", "ABSK[A-Za-z0-9+/=]{100,}+", "BSA[A-Za-z0-9_-]{27,28}"),
    *("csk-[A-Za-z0-9]{40,}+", "llx-[A-Za-z0-9]{40,}+"),
    # Clouds: Tailscale, Cloudflare (three), Scalingo, Alibaba, Yandex, OpenShift, Aiven, Pulumi and 1Password.
    *("tskey-[a-z]{3,8}-[A-Za-z0-9]{8,}+-[A-Za-z0-9]{16,}+", "cfut_[A-Za-z0-9]{40,}+", "cfat_[A-Za-z0-9]{40,}+"),
    *("v1[.]0-[a-f0-9]{24}-[a-f0-9]{146}", "tk-us-[A-Za-z0-9_-]{48}", "LTAI[A-Za-z0-9]{12,20}"),
    *("t1[.][A-Za-z0-9_-]{10,}+=*[.][A-Za-z0-9_-]{86}", "sha256~[A-Za-z0-9_-]{43}", "AVNS_[A-Za-z0-9_-]{16,}+"),
    *("pul-[a-f0-9]{40}", "A3-[A-Z0-9]{6}-[A-Z0-9-]{11,13}(?:-[A-Z0-9]{5}){3}"),
    # Code and packages: Sourcegraph, SonarQube, Artifactory (two), NuGet, Clojars, crates.io, GitLab, Prefect, Octopus
    # Deploy, Endor Labs, ReadMe, Hugging Face, Pydantic and ClickHouse.
    *("sgp_(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}", "sqa_[a-f0-9]{40}", "sqp_[a-f0-9]{40}", "squ_[a-f0-9]{40}"),
    *("AKCp[A-Za-z0-9]{60,}+", "cmVmd[A-Za-z0-9]{59}", "oy2[a-z0-9]{43}", "CLOJARS_[a-z0-9]{60}", "cio[A-Za-z0-9]{32}"),
    *("GR1348941[A-Za-z0-9_-]{20}", "pnu_[A-Za-z0-9]{36}", "pnb_[A-Za-z0-9]{36}", "API-[A-Z0-9]{26}"),
    *("endr[+][A-Za-z0-9-]{16}", "rdme_[a-z0-9]{70}", "api_org_[A-Za-z]{34}", "pylf_v1_[A-Za-z0-9_]{20,}+"),
    "4b1d[A-Za-z0-9]{38}",
    # Mail, sales and payment: Brevo (two), Resend, HubSpot, Typeform, Duffel, Shippo, EasyPost, Flutterwave,
    # SettleMint, Facebook and Square, PostHog, Infracost, Adobe, Frame.io, 42 and Defined Networking.
    *(
        "xkeysib-[a-f0-9]{64}",
        "xsmtpsib-[a-f0-9]{64}",
        "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}",
        f"pat-[a-z]{{2}}[0-9]-{_UUID}",
    ),
    *("tfp_[A-Za-z0-9_.=-]{40,}+", "duffel_(?:live|test)_[A-Za-z0-9_-]{43}", "shippo_(?:live|test)_[a-f0-9]{40}"),
    *(
        "EZAK[A-Za-z0-9]{54}",
        "EZTK[A-Za-z0-9]{54}",
        "FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}+",
        "sm_[aps]at_[A-Za-z0-9]{16}",
    ),
    *("EAA[A-Za-z0-9_-]{60,}+", "phc_[A-Za-z0-9]{40,}+", "phx_[A-Za-z0-9]{40,}+", "ico-[A-Za-z0-9]{32}"),
    *(
        "p8e-[a-z0-9]{32}",
        "fio-u-[A-Za-z0-9_=-]{64}",
        "s-s4t2(?:ud|af)-[a-f0-9]{64}",
        "dnkey-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}",
    ),
    # Fernet, and service accounts of Grafana.
    *("gAAAAA[A-Za-z0-9_=-]{60,}+", "eyJrIjoi[A-Za-z0-9+/=]{40,}+"),
)
"""Expressions of tokens whose beginning alone is an ordinary word."""
_OPTIONS: Final = ("--password", "--passwd", "--token", "--api-key", "--apikey", "--secret", "--client-secret")
_TAGS: Final = ("password", "passwd", "secret", "token", "apikey", "api_key", "api-key", "clientsecret", "privatekey")


def beginning_of(expression: str) -> str:
    """Return the text with which every match of one of `TOKENS` begins."""
    return re.split(r"[\[(]", expression.replace("[.]", "."), maxsplit=1)[0]


def _end_at_word(expression: str) -> str:
    """Return an expression that does not match the beginning of a longer word, such as a digest."""
    return expression if expression.endswith("+") else rf"{expression}(?!\w)"


SHAPES: Final[tuple[Shape, ...]] = (
    (
        tuple(prefix.lower() for prefix in _PREFIXES),
        rf"(?<![\w-])(?:{'|'.join(prefix.replace('.', '[.]') for prefix in _PREFIXES)})[\w.-]{{16,}}+",
    ),
    (tuple(beginning_of(each).lower() for each in TOKENS), rf"(?<![\w-])(?:{'|'.join(map(_end_at_word, TOKENS))})"),
    (("_mmk",), r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),  # MaxMind
    (("dapi",), r"\bdapi[a-f0-9]{32}(?:-\d{1,2})?\b"),  # Databricks
    (("key-",), r"(?<![\w-])key-[0-9a-f]{32}\b"),  # Mailgun
    (("-us",), r"(?<![0-9a-z])[0-9a-f]{32}-us\d{1,2}\b"),  # Mailchimp
    ((":aa",), r"(?<!\d)\d{8,10}:AA[\w-]{33}"),  # bots of Telegram
    (("pat",), r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),  # Airtable
    (("1//0",), r"(?<![\w/])1//0[\w-]{20,}+"),  # refresh tokens of Google
    ((".atlasv1.",), r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}+"),  # HCP Terraform
    (("sk",), r"\bSK[0-9a-f]{32}\b"),  # Twilio
    (("q~",), r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}"),  # client secrets of Microsoft Entra
    (("sl.",), r"(?<![\w.-])sl\.[\w-]{50,}+"),  # Dropbox
    # The private part of a key file of PuTTY extends to its checksum.
    (("private-lines:",), r"(?s:\bPrivate-Lines:(?:(?!Private-MAC).)*+)"),
    # `-u name:password` of programs like curl, also in quotes. The rule leaves out ids of a user and a group, dates and
    # addresses. The redactor knows more forms of curl.
    (
        ("-u ", "--user"),
        (
            r"(?:(?<=\s-u\s)|(?<=\s--user\s)|(?<=\s--user=))(?![\"']?(?:\d{1,10}:\d{1,10}[\"']?(?!\S)|[-+$]))"
            r"(?:\"[^:\"]{1,128}:(?!//)[^\"]*+|'[^:']{1,128}:(?!//)[^']*+|[^\s:\"']{1,128}:(?!//)[^\s\"']++)"
        ),
    ),
    # `--password value`. The value has a digit or a symbol, unlike the next word of a sentence.
    (
        _OPTIONS,
        (
            rf"(?:{'|'.join(rf'(?<={option} )' for option in _OPTIONS)})(?!-)"
            r"(?:\"[^\"]++|'[^']++|(?=[^\s\"']{6})(?=[A-Za-z.,;]{0,64}[\d!@#$%^&*+/=_~:-])[^\s\"']++)"
        ),
    ),
    (("login",), r"(?i:\blogin\s{1,4}\S{1,128}\s{1,4}password\s{1,4})\S++"),  # .netrc
    (("webhook.office.com",), r"\bhttps://[\w.-]{1,100}\.webhook\.office\.com/webhookb2/[\w@/.-]++"),  # Microsoft Teams
    # An element of XML with such a name. The redactor knows further elements by their end.
    (
        tuple(f"<{tag}" for tag in _TAGS),
        rf"(?i:{'|'.join(f'(?<=<{tag}>)' for tag in _TAGS)})[^<]{{1,4096}}",
    ),
    # The formats of SSH2 (RFC 4716) and of OpenVPN.
    (("---- begin ssh2",), r"(?s:---- BEGIN SSH2 [A-Z ]{0,40}PRIVATE KEY ----(?:(?!---- END).)*+)"),
    (("openvpn static key",), r"(?s:-----BEGIN OpenVPN Static key V1-----(?:(?!-----END).)*+)"),
)
