"""Places where people keep credentials, and where services listen that would do outside what a sandbox forbids.

Data for `policy.HiddenPlaces`; docs/safety.md describes it. `~` and `$NAME` at the beginning are filled in
from the environment. A folder is better than a file here: a hidden file that its owner replaces while a command runs
(token refresh by rename) comes into that command's sight under bubblewrap, a file in a hidden folder does not. Places
that only hold settings, and those in which builds have to write, are not listed.
"""

KEYS_AND_TOKENS = (
    *("~/.ssh", "~/.gnupg", "~/.pki", "~/.password-store", "~/.netrc", "~/.authinfo", "~/.authinfo.gpg"),
    *("$XDG_DATA_HOME/keyrings", "$XDG_DATA_HOME/kwalletd", "~/.1password", "$XDG_CONFIG_HOME/op"),
    *("$XDG_CONFIG_HOME/Bitwarden CLI", "$XDG_CONFIG_HOME/sops", "$XDG_CONFIG_HOME/age", "~/.vault-token"),
    # Clouds and hosting.
    *("~/.aws", "~/.azure", "~/.kube", "~/.oci", "~/.bluemix", "~/.boto", "~/.s3cfg", "~/.mc", "~/.fly", "~/.pulumi"),
    *("$XDG_CONFIG_HOME/gcloud", "$XDG_CONFIG_HOME/doctl", "$XDG_CONFIG_HOME/hcloud", "$XDG_CONFIG_HOME/linode-cli"),
    *("$XDG_CONFIG_HOME/rclone", "$XDG_CONFIG_HOME/netlify", "$XDG_CONFIG_HOME/stripe", "$XDG_CONFIG_HOME/configstore"),
    *("$XDG_CONFIG_HOME/.wrangler", "~/.wrangler", "~/.supabase", "~/.railway", "$XDG_DATA_HOME/com.vercel.cli"),
    *("~/.terraform.d/credentials.tfrc.json", "~/.terraformrc", "~/.databrickscfg", "~/.snowflake", "~/.snowsql"),
    *("~/.kaggle", "~/.chef", "~/.huggingface", "$XDG_CACHE_HOME/huggingface/token"),
    *("$XDG_CACHE_HOME/huggingface/stored_tokens", "$XDG_DATA_HOME/jupyter/runtime"),
    # Code hosting and package registries.
    *("~/.git-credentials", "$XDG_CONFIG_HOME/git/credentials", "$XDG_CONFIG_HOME/gh", "$XDG_CONFIG_HOME/hub"),
    *("$XDG_CONFIG_HOME/glab-cli", "~/.npmrc", "~/.yarnrc.yml", "~/.pypirc", "~/.gem/credentials"),
    *("$CARGO_HOME/credentials", "$CARGO_HOME/credentials.toml", "~/.m2/settings.xml", "~/.m2/settings-security.xml"),
    *("~/.composer/auth.json", "$XDG_CONFIG_HOME/composer/auth.json", "$XDG_CONFIG_HOME/pypoetry/auth.toml"),
    *("$XDG_DATA_HOME/uv/credentials", "$XDG_CONFIG_HOME/dart/pub-credentials.json"),
    *("~/.docker/config.json", "$XDG_CONFIG_HOME/containers/auth.json"),
    *("~/.dockercfg", "~/.subversion", "~/.gradle/gradle.properties", "~/.nuget/NuGet", "$XDG_CONFIG_HOME/tea"),
    *("~/.sentryclirc", "~/.cf", "~/.aliyun", "~/.step", "$XDG_CONFIG_HOME/ngrok"),
    # Databases.
    *("~/.pgpass", "~/.my.cnf", "~/.mylogin.cnf"),
    # Agents and editors, ourselves among them: settings, sessions and what was typed in `polylect chat`.
    *("$XDG_CONFIG_HOME/polylect", "$XDG_STATE_HOME/polylect", "$XDG_DATA_HOME/polylect", "$POLYLECT_HOME"),
    *("~/.claude.json", "~/.claude/.credentials.json", "~/.codex", "~/.gemini", "~/.omp/agent/auth.json"),
    *("$CLAUDE_CONFIG_DIR/.claude.json", "$CLAUDE_CONFIG_DIR/.credentials.json"),
    *("~/.pi/agent/auth.json", "$XDG_DATA_HOME/opencode/auth.json", "$XDG_CONFIG_HOME/github-copilot"),
    *("$XDG_CONFIG_HOME/goose/secrets.yaml", "$XDG_CONFIG_HOME/Code/User/globalStorage"),
    *("$XDG_CONFIG_HOME/Cursor/User/globalStorage", "$XDG_CONFIG_HOME/JetBrains", "~/.ollama", "~/.copilot", "~/.qwen"),
    *("~/.msmtprc", "~/.fetchmailrc"),
    # Browsers, mail, messengers, wallets.
    *("~/.mozilla", "~/.thunderbird", "~/.var/app", "~/snap/firefox", "~/snap/chromium", "~/snap/thunderbird"),
    *("$XDG_CONFIG_HOME/google-chrome", "$XDG_CONFIG_HOME/chromium", "$XDG_CONFIG_HOME/BraveSoftware"),
    *("$XDG_CONFIG_HOME/microsoft-edge", "$XDG_CONFIG_HOME/vivaldi", "$XDG_CONFIG_HOME/opera"),
    *("$XDG_CONFIG_HOME/Slack", "$XDG_CONFIG_HOME/discord", "$XDG_CONFIG_HOME/Signal", "~/.electrum", "~/.bitcoin"),
    *("~/.ethereum", "$XDG_CONFIG_HOME/solana"),
    # Histories: people type keys.
    *("~/.bash_history", "~/.zsh_history", "~/.zhistory", "~/.histfile", "$XDG_DATA_HOME/fish", "$XDG_DATA_HOME/atuin"),
    *("~/.python_history", "~/.node_repl_history", "~/.psql_history", "~/.mysql_history", "~/.rediscli_history"),
    # The display, and what root could read.
    *("~/.Xauthority", "~/.ICEauthority", "/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/krb5.keytab"),
    *("/run/secrets", "/etc/kubernetes/admin.conf"),
)
"""Files and folders."""
SERVICES = (
    *("/run/user", "/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/dbus/system_bus_socket"),
    *("/run/systemd/private", "/run/buildkit", "/run/k3s", "/run/libvirt", "/run/incus", "/var/lib/incus/unix.socket"),
    *("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/run/snapd.socket", "/run/screen"),
    *("~/.docker/run", "~/.docker/desktop", "~/.colima", "~/.lima", "~/.orbstack/run", "~/.rd", "~/.screen"),
)
"""Sockets, and folders of sockets, of services that start programs or hold keys."""
VARIABLES = (
    # Files of credentials.
    *(
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
    *("KUBECONFIG", "NETRC", "PGPASSFILE", "NPM_CONFIG_USERCONFIG", "DOCKER_CONFIG", "CLOUDSDK_CONFIG", "GNUPGHOME"),
    *("AZURE_CONFIG_DIR", "GH_CONFIG_DIR", "ANSIBLE_VAULT_PASSWORD_FILE", "RCLONE_CONFIG", "BOTO_CONFIG"),
    *("SOPS_AGE_KEY_FILE", "XAUTHORITY", "ICEAUTHORITY", "PASSWORD_STORE_DIR", "HISTFILE"),
    *("KRB5CCNAME", "PIP_CONFIG_FILE", "npm_config_userconfig", "CODEX_HOME", "TF_CLI_CONFIG_FILE"),
    "POETRY_CONFIG_DIR",
    # Sockets of agents, container services, terminals and editors that can be told to run something.
    *("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"),
    *("DBUS_SYSTEM_BUS_ADDRESS", "TMUX", "NVIM", "NVIM_LISTEN_ADDRESS", "KITTY_LISTEN_ON", "ALACRITTY_SOCKET"),
    *("WEZTERM_UNIX_SOCKET", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "SWAYSOCK", "I3SOCK", "WAYLAND_DISPLAY"),
)
"""Variables that say where such a file or socket is."""
TEMPORARY_SOCKETS = ("ssh-", "tmux-", "dbus-", "vscode-", "emacs", "docker")
"""How names in /tmp begin that are sockets, or folders of sockets, of such services. They are looked for before every
command, because they may come while a session lasts."""
DISPLAYS = ("/tmp/.X11-unix", "/tmp/.ICE-unix")
"""Folders whose sockets are hidden one by one, so that a command can start a display of its own."""
HARMLESS_SOCKETS = (
    "/run/postgresql",
    "/run/mysqld",
    "/run/redis",
    "/run/memcached",
    "/nix/var/nix",
    "/run/systemd/journal",
)
"""Databases, which programs under test need and which listen on the loopback address too; Nix; the system's log."""
