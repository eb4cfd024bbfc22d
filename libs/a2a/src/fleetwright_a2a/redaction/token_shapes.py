"""The shapes of tokens that providers document or that scanners of secrets know, as expressions with linear time.

Each entry has lower-case substrings and an expression, and every match of the expression needs one of the substrings.
"""

from typing import Final

Shape = tuple[tuple[str, ...], str]

_PREFIXES: Final = (
    *("glpat-", "glptt-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glft-", "glsoat-", "glagent-", "glimt-", "gloas-"),
    *("xai-", "gsk_", "pplx-", "r8_", "tvly-", "pcsk_", "lsv2_pt_", "lsv2_sk_"),
    *("hvs.", "hvb.", "hvr.", "dckr_pat_", "dckr_oat_", "doo_v1_", "dor_v1_", "rubygems_", "nfp_"),
    *("shpat_", "shpca_", "shppa_", "shpss_", "sq0atp-", "sq0csp-"),
    *("lin_api_", "lin_oauth_", "ntn_", "figd_", "figoh_", "PMAK-", "ATATT3", "ATCTT3"),
    *("glc_", "glsa_", "sntrys_", "sntryu_", "NRAK-", "NRJS-", "dp.pt.", "dp.st.", "dp.ct.", "dp.sa."),
    *("pscale_tkn_", "pscale_oauth_", "pscale_pw_", "sbp_", "sb_secret_", "fo1_", "fm1r_", "fm2_", "HRKU-"),
    *("CCIPAT_", "CCIPRJ_", "bkua_", "AGE-SECRET-KEY-1", "ops_eyJ"),
)
"""The beginnings of tokens of GitLab, xAI, Groq, Perplexity, Replicate, Tavily, Pinecone, LangSmith, Vault, Docker,
DigitalOcean, RubyGems, Netlify, Shopify, Square, Linear, Notion, Figma, Postman, Atlassian, Grafana, Sentry, New Relic,
Doppler, PlanetScale, Supabase, Fly, Heroku, CircleCI, Buildkite, age and 1Password. At least 16 characters follow.
"""
_TAGS: Final = ("password", "passwd", "secret", "token", "apikey", "api_key", "api-key", "clientsecret", "privatekey")

SHAPES: Final[tuple[Shape, ...]] = (
    (
        tuple(prefix.lower() for prefix in _PREFIXES),
        rf"(?<![\w-])(?:{'|'.join(prefix.replace('.', '[.]') for prefix in _PREFIXES)})[\w.-]{{16,}}+",
    ),
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
    # `curl -u name:password`, also in quotes.
    (
        ("-u ", "--user"),
        r"(?:(?<=\s-u\s)|(?<=\s--user\s)|(?<=\s--user=))[\"']?[^\s:\"']{1,128}:(?:(?<=[\"'].)[^\"']*+|[^\s\"']++)",
    ),
    # An element of XML with such a name.
    (
        tuple(f"<{tag}" for tag in _TAGS),
        rf"(?i:{'|'.join(f'(?<=<{tag}>)' for tag in _TAGS)})[^<]{{1,4096}}",
    ),
)
