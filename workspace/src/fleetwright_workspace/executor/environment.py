"""The environment of commands: variables that name the toolchain, and none that may hold a credential. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

TOOLCHAIN = frozenset(
    {
        "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ",
        "JAVA_HOME", "MAVEN_HOME", "GRADLE_HOME", "GOPATH", "GOROOT", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_HOME",
        "RUST_VERSION", "NODE_VERSION", "YARN_VERSION", "NVM_DIR", "PYTHON_VERSION", "VIRTUAL_ENV",
        "RUBY_VERSION", "GEM_HOME", "GEM_PATH", "BUNDLE_APP_CONFIG", "BUNDLE_SILENCE_ROOT_WARNING", "DOTNET_ROOT",
        "DOTNET_VERSION", "PHP_VERSION", "PHP_INI_DIR", "LD_LIBRARY_PATH",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    }
)  # fmt: skip
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command_environment(
    own: Mapping[str, str], requested: Mapping[str, str], *, home: str, keep: Collection[str]
) -> dict[str, str]:
    """Return the environment: toolchain variables of this process, those in `keep`, and those of the request."""
    kept = {name: value for name, value in own.items() if name in TOOLCHAIN or name in keep}
    defaults = {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8"}
    fixed = {"HOME": home, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "CI": "1"}
    return {**defaults, **kept, **fixed, **requested}
