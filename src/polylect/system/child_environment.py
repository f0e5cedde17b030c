"""Which variables of our environment the programs that we start may see: an allow-list, so that no key slips through.

A list of forbidden names always misses one (`GITHUB_TOKEN`, `PGPASSWORD`, `SENTRY_DSN`); so a variable is passed on
only if it is known to be harmless, or if the user's own settings name it in `[sandbox] env`. There are two lists:

- `_FOR_ALL`: what programs need to run at all: paths, language, terminal, certificates, proxies.
- `_FOR_COMMANDS`: the settings of compilers, interpreters and package managers. Commands and hooks get them too.
  MCP servers do not: they run outside the sandbox, where a `PYTHONPATH` that leads into the workspace would let
  the workspace's code run with the user's rights.

Some variables change how a program is loaded. `LD_LIBRARY_PATH` is set inside the sandbox only (`loader_variables`),
because the program that builds the sandbox would obey it too. `LD_PRELOAD`, `LD_AUDIT`, `BASH_ENV`, `ENV`, exported
shell functions and the settings of git that can hold keys (`GIT_CONFIG_*`, `GIT_ASKPASS`) are on no list.

Called by `app` for commands, hooks and the tool worker, and by `mcp` for servers. Names are told, values never are.
"""

from collections.abc import Collection, Iterable, Mapping

_FOR_ALL = """
HOME USER LOGNAME USERNAME SHELL PATH TERM COLORTERM TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO TERMINFO_DIRS COLUMNS
LINES
LANG LANGUAGE LC_* TZ TZDIR LOCPATH LOCALE_ARCHIVE TMPDIR TMP TEMP HOSTNAME XDG_*
SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE AWS_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT
NIX_SSL_CERT_FILE NO_PROXY no_proxy NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI DEBIAN_FRONTEND
"""
_FOR_COMMANDS = """
PWD OLDPWD SHLVL MAIL HOSTTYPE MACHTYPE OSTYPE LS_COLORS LSCOLORS GREP_COLORS GCC_COLORS LESS LESSCHARSET LESSOPEN
EDITOR VISUAL PAGER MANPAGER MANPATH INFOPATH BROWSER EMAIL SOURCE_DATE_EPOCH
MAKEFLAGS MFLAGS MAKELEVEL CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY OBJDUMP FC CFLAGS CXXFLAGS CPPFLAGS FFLAGS
LDFLAGS
LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR
PKG_CONFIG_SYSROOT_DIR
CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_BUILD_TYPE CMAKE_BUILD_PARALLEL_LEVEL CMAKE_TOOLCHAIN_FILE
CMAKE_INSTALL_PREFIX
CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_EXPORT_COMPILE_COMMANDS CTEST_OUTPUT_ON_FAILURE
CTEST_PARALLEL_LEVEL NINJA_STATUS CCACHE_DIR SCCACHE_DIR VCPKG_ROOT ACLOCAL_PATH
CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES ROCM_PATH ROCM_HOME HIP_VISIBLE_DEVICES OMP_NUM_THREADS MKL_NUM_THREADS
OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS TOKENIZERS_PARALLELISM HF_HOME TORCH_HOME
VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL MAMBA_EXE
MAMBA_ROOT_PREFIX PYENV_ROOT PYENV_VERSION PYENV_SHELL PYENV_VIRTUALENV_INIT PIPX_HOME PIPX_BIN_DIR PIP_CACHE_DIR
PIP_REQUIRE_VIRTUALENV PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR PIP_ROOT_USER_ACTION POETRY_HOME
POETRY_CACHE_DIR
POETRY_VIRTUALENVS_IN_PROJECT PIPENV_VENV_IN_PROJECT WORKON_HOME PROJECT_HOME UV_CACHE_DIR UV_PYTHON UV_LINK_MODE
UV_PYTHON_INSTALL_DIR UV_TOOL_DIR UV_TOOL_BIN_DIR UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_OFFLINE UV_NO_CACHE
PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONWARNINGS
PYTHONNOUSERSITE PYTHONUSERBASE PYTHONPYCACHEPREFIX PYTHONFAULTHANDLER PYTHONASYNCIODEBUG PYTHONDEVMODE PYTHONSAFEPATH
PYTHONOPTIMIZE PYTHON_COLORS PYTEST_ADDOPTS MYPYPATH DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV FLASK_DEBUG
NODE_ENV NODE_PATH NODE_OPTIONS NODE_VERSION NVM_DIR NVM_BIN NVM_INC NVM_CD_FLAGS FNM_DIR FNM_ARCH FNM_MULTISHELL_PATH
FNM_NODE_DIST_MIRROR FNM_VERSION_FILE_STRATEGY VOLTA_HOME N_PREFIX PNPM_HOME BUN_INSTALL DENO_INSTALL DENO_DIR
DENO_INSTALL_ROOT COREPACK_HOME NPM_CONFIG_PREFIX NPM_CONFIG_CACHE npm_config_prefix npm_config_cache
YARN_CACHE_FOLDER
YARN_GLOBAL_FOLDER YARN_VERSION PLAYWRIGHT_BROWSERS_PATH PUPPETEER_EXECUTABLE_PATH PUPPETEER_CACHE_DIR
PUPPETEER_SKIP_DOWNLOAD CHROME_BIN CYPRESS_CACHE_FOLDER ELECTRON_CACHE
JAVA_HOME JDK_HOME JRE_HOME CLASSPATH MAVEN_HOME M2_HOME M2 GRADLE_HOME GRADLE_USER_HOME ANT_HOME KOTLIN_HOME
SCALA_HOME
SDKMAN_DIR SDKMAN_CANDIDATES_DIR SDKMAN_PLATFORM ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME ANDROID_NDK_ROOT
ANDROID_USER_HOME FLUTTER_ROOT PUB_CACHE
GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOOS GOARCH GOARM GOAMD64 GOPRIVATE GONOSUMDB GONOSUMCHECK GONOPROXY
GOSUMDB
GOTOOLCHAIN GO111MODULE GOWORK GOEXPERIMENT GOMAXPROCS GOGC GODEBUG GOTMPDIR CGO_ENABLED CGO_CFLAGS CGO_CXXFLAGS
CGO_LDFLAGS
CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTC RUSTC_WRAPPER RUSTFLAGS RUSTDOCFLAGS RUST_BACKTRACE RUST_LOG
RUST_MIN_STACK
RUST_TEST_THREADS CARGO_TARGET_DIR CARGO_BUILD_JOBS CARGO_BUILD_TARGET CARGO_INCREMENTAL CARGO_TERM_COLOR
CARGO_NET_OFFLINE CARGO_NET_GIT_FETCH_WITH_CLI
GEM_HOME GEM_PATH RBENV_ROOT RBENV_VERSION RBENV_SHELL RUBY_VERSION RUBYLIB MY_RUBY_HOME rvm_path rvm_prefix
rvm_bin_path
BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_APP_CONFIG RAILS_ENV RACK_ENV COMPOSER_HOME COMPOSER_CACHE_DIR APP_ENV
PERL5LIB PERL_LOCAL_LIB_ROOT PERL_MB_OPT PERL_MM_OPT R_HOME R_LIBS R_LIBS_USER R_LIBS_SITE JULIA_DEPOT_PATH
JULIA_PROJECT
JULIA_NUM_THREADS GHCUP_INSTALL_BASE_PREFIX STACK_ROOT CABAL_DIR OPAMROOT OPAMSWITCH OPAM_SWITCH_PREFIX
OCAML_TOPLEVEL_PATH CAML_LD_LIBRARY_PATH OCAMLPATH MIX_ENV MIX_HOME MIX_ARCHIVES HEX_HOME
DOTNET_ROOT DOTNET_CLI_HOME DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO NUGET_PACKAGES LUA_PATH LUA_CPATH EMSDK
EM_CONFIG
ASDF_DIR ASDF_DATA_DIR MISE_SHELL MISE_DATA_DIR MISE_CONFIG_DIR MISE_CACHE_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR
HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES NIX_STORE NIX_CC NIX_CFLAGS_COMPILE NIX_LDFLAGS NIX_BINTOOLS NIX_BUILD_CORES
IN_NIX_SHELL GUIX_PROFILE GUIX_LOCPATH SDKROOT DEVELOPER_DIR MACOSX_DEPLOYMENT_TARGET __CF_USER_TEXT_ENCODING
GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_EDITOR
AWS_REGION AWS_DEFAULT_REGION GOOGLE_CLOUD_PROJECT VERTEX_PROJECT_ID VERTEX_REGION
GIT_PAGER GIT_TERMINAL_PROMPT GIT_CEILING_DIRECTORIES GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT
"""
_ADDRESSES = """
HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY http_proxy https_proxy all_proxy ftp_proxy
PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX UV_INDEX GOPROXY
NPM_CONFIG_REGISTRY npm_config_registry NVM_NODEJS_ORG_MIRROR RUSTUP_DIST_SERVER RUSTUP_UPDATE_ROOT
"""
"""Passed on unless they hold a password, `http://user:password@host`."""
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_OF_THE_LOADER = ("LD_", "DYLD_")
_ENGINES_OWN = ("POLYLECT_*",)
_ORDINARY = """
_ DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_* SSH_* GPG_* WINDOWID SESSION_MANAGER DESKTOP_* GNOME_* GTK_* GDM* KDE_*
QT_* XCURSOR_*
VTE_* VSCODE_* TERM_SESSION_ID ITERM_* KITTY_* ALACRITTY_* WEZTERM_* GHOSTTY_* KONSOLE_* COLORFGBG TMUX* STY ZELLIJ*
WT_* WSL*
INVOCATION_ID JOURNAL_STREAM SYSTEMD_* MANAGERPID MEMORY_PRESSURE_* NOTIFY_SOCKET LISTEN_* HIST* PS1 PS2
PROMPT_COMMAND
SECURITYSESSIONID COMMAND_MODE LaunchInstanceID XPC_* SUDO_* IM_CONFIG_PHASE CLUTTER_* XMODIFIERS BASH_FUNC_*
LS_OPTIONS ANTHROPIC_* OPENAI_* CLAUDE_* DISABLE_* BASH_DEFAULT_TIMEOUT_MS BASH_MAX_TIMEOUT_MS BASH_MAX_OUTPUT_LENGTH
MCP_TIMEOUT MCP_TOOL_TIMEOUT MAX_THINKING_TOKENS API_TIMEOUT_MS ENABLE_TOOL_SEARCH IS_SANDBOX PI_* OMP_* AIONRS_*
WAYLAND_*
ELECTRON_* CHROME_DESKTOP ORIGINAL_XDG_CURRENT_DESKTOP
"""
"""Withheld as well, but nobody misses them: they belong to the terminal, the desktop, an Electron host or the engine
itself. Only `doctor` names them."""
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL", "COOKIE", "AUTH")
"""A variable with such a word in its name is never passed on by a pattern, only by its whole name."""


def is_secret(name: str) -> bool:
    """Whether a variable looks like a secret by its name."""
    return any(word in name.upper() for word in _SECRET_WORDS)


class _Names:
    """Whole names, and beginnings of names that are written with a `*` at their end."""

    def __init__(self, words: Iterable[str]) -> None:
        words = list(words)
        self._whole = frozenset(word for word in words if not word.endswith("*"))
        self._begin = tuple(word[:-1] for word in words if word.endswith("*"))

    def has(self, name: str) -> bool:
        return name in self._whole or name.startswith(self._begin)

    def names(self, name: str) -> bool:
        """As `has`, but what looks like a secret has to be named in full."""
        if name in self._whole:
            return True
        return name.startswith(self._begin) and not is_secret(name)


_SERVERS = _Names(_FOR_ALL.split())
_COMMANDS = _Names((*_FOR_ALL.split(), *_FOR_COMMANDS.split()))
_MAY_HOLD_A_PASSWORD = _Names(_ADDRESSES.split())
_UNTOLD = _Names((*_ORDINARY.split(), *_ENGINES_OWN))


def command_environment(
    env: Mapping[str, str], added: Iterable[str] = (), keys: Collection[str] = ()
) -> dict[str, str]:
    """What commands, hooks and the tool worker see of `env`.

    `added` are the names and `PREFIX_*` of `[sandbox] env`. `keys` are credentials in use: a variable with such a value
    is withheld whatever it is called, unless `added` has its whole name. `LD_*` and `DYLD_*` are never in it.
    """
    own = list(added)
    whole, mine = _Names(name for name in own if not name.endswith("*")), _Names(own)

    def is_passed(name: str, value: str) -> bool:
        if name.startswith(_OF_THE_LOADER):
            return False
        return whole.has(name) or (value not in keys and (mine.names(name) or _is_harmless(name, value, _COMMANDS)))

    return {name: value for name, value in env.items() if is_passed(name, value)}


def loader_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Where the loader of programs looks for libraries: for the command inside the sandbox, and nobody before it."""
    return {name: env[name] for name in _LOADER if env.get(name)}


def server_environment(env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What an MCP server sees: what programs need to run at all, and `own`, which its configuration gives it."""
    return {name: value for name, value in env.items() if _is_harmless(name, value, _SERVERS)} | dict(own)


def withheld(env: Mapping[str, str], passed: Collection[str], *, all_of_them: bool = False) -> list[str]:
    """The names in `env` that are not among those passed on, without those that nobody misses."""
    names = [name for name in env if name not in passed and name not in _LOADER]
    return sorted(name for name in names if all_of_them or not _UNTOLD.has(name))


def _is_harmless(name: str, value: str, known: _Names) -> bool:
    return known.names(name) or (_MAY_HOLD_A_PASSWORD.has(name) and "@" not in value)
