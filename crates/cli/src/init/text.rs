//! The commented settings for what was found.

use std::fmt::Write as _;
use std::path::Path;

use super::found::{Application, Found};

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The settings as TOML. `hidden` is the settings' own file, below the root, which clients must not get.
pub(super) fn of(found: &Found, hidden: Option<&Path>) -> String {
    let mut text = String::from(HEAD);
    let mut put = |comment: &str, lines: &str| {
        let _ = write!(text, "\n{comment}{lines}");
    };
    put(
        "# The directory to serve. Nothing outside of it is ever served.\n",
        &format!("root = {}\n", quoted(&found.root.to_string_lossy())),
    );
    if found.may_use_port_80 {
        put("# Where clients connect: port 80 of all addresses.\n", "listen = \":80\"\n");
    } else {
        put(
            "# Where clients connect: port 8080, from this machine only. \":80\" is port 80 of all\n\
             # addresses, and requires root or CAP_NET_BIND_SERVICE.\n",
            "listen = \"127.0.0.1:8080\"\n",
        );
    }
    if let Some(account) = found.account {
        put(
            "# The account to serve as. Root opens addresses and logs before.\n",
            &format!("user = {}\n", quoted(account)),
        );
    }
    put("# Where `sluice status` asks. Only this machine reaches it.\n", "status = \"127.0.0.1:8081\"\n");
    put(
        "# A line for each request, in the combined format. Not set: lines on a terminal.\n",
        "# access_log = \"/var/log/sluice/access.log\"\n",
    );
    let listing = if found.lists_directories() { "listing = true\n" } else { "# listing = true\n" };
    put("# List directories that have no index file.\n", listing);

    // Tables follow the keys at the top.
    let php = found.fpm.as_ref().filter(|_| found.has_scripts);
    let children = php.and_then(|fpm| fpm.children.as_ref());
    let (mut pools, mut routes) = (String::new(), String::new());
    if let Some(hidden) = hidden {
        let path = quoted(&format!("/{}", hidden.display()));
        let _ = write!(
            routes,
            "\n# These settings are below the root. Clients don't get them.\n\
             [[routes]]\npath = {path}\nstatus = 404\n"
        );
    }
    match (php, children) {
        (Some(fpm), Some((children, file))) => {
            put(
                "# index.php comes before index.html.\n",
                "[files]\nindex = [\"index.php\", \"index.html\"]\n",
            );
            let _ = write!(
                pools,
                "\n# PHP-FPM. `children` must be its pm.max_children, from {}.\n\
                 [[pools]]\nname = \"php\"\nservers = {}\nchildren = {children}\n",
                file.display(),
                quoted(&fpm.address)
            );
            routes += "\n# PHP runs files whose names end with .php. Others are sent as they are.\n\
                       [[routes]]\npool = \"php\"\n";
        }
        (Some(fpm), None) => {
            put(
                "# PHP-FPM runs files whose names end with .php.\n",
                &format!("php = {}\n", quoted(&fpm.address)),
            );
        }
        (None, _) if found.has_scripts => put(
            "# There are PHP scripts, but no PHP-FPM was found. Install it, and set its address here.\n",
            "# php = \"unix:/run/php/php-fpm.sock\"\n",
        ),
        (None, _) => {}
    }
    if php.is_some() {
        put("# The largest upload.\n", "[limits]\nbody = \"64 MiB\"\n");
    }
    if php.is_some() && found.has_front_controller {
        routes += "\n# A path that is no file goes to index.php.\n[[routes]]\nfallback = \"/index.php\"\n";
    }
    if let Some(application) = &found.application {
        let (pool, route) = of_application(application, &found.root);
        pools += &pool;
        routes += &route;
    }
    text + &pools + &routes
}

/// The pool of an application, and the route to it.
fn of_application(application: &Application, root: &Path) -> (String, String) {
    let address = quoted(&application.address);
    let Some(language) = application.language else {
        let program = quoted(&root.join("application").to_string_lossy());
        return (
            format!(
                "\n# An application that speaks FastCGI.\n\
                 # `children`: how many requests it works on at a time.\n\
                 [[pools]]\nname = \"application\"\nservers = {address}\nchildren = 1\n"
            ),
            format!(
                "\n# Everything else goes to the application. SCRIPT_FILENAME is `program`.\n\
                 [[routes]]\npath = \"/**\"\npool = \"application\"\nprogram = {program}\n"
            ),
        );
    };
    let pool = format!(
        "\n# An application in {language}, which speaks HTTP. `servers`: where it listens.\n\
         # `children`: how many requests it works on at a time.\n\
         [[pools]]\nname = \"application\"\nprotocol = \"http\"\nservers = {address}\n# children = 128\n"
    );
    let (comment, files_first) = if application.has_files {
        ("A path that is no file goes to the application.", "files_first = true\n")
    } else {
        ("Everything goes to the application: the root has its program, which clients must not get.", "")
    };
    (pool, format!("\n# {comment}\n[[routes]]\npool = \"application\"\n{files_first}"))
}

const HEAD: &str = "\
# Settings of sluice, written by `sluice init`. All keys are in the manual page sluice.toml(5).
#
#   sluice check --config sluice.toml      what they mean, and whether they work
#   sluice serve --config sluice.toml      serve
#   kill -HUP PID                          use changed settings; no connection breaks
";

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use server::config::{CommandLine, Source};

    use super::super::found::Fpm;
    use super::*;

    fn found(root: &Path) -> Found {
        Found {
            root: root.to_owned(),
            has_index: true,
            has_scripts: false,
            has_front_controller: false,
            fpm: None,
            application: None,
            may_use_port_80: false,
            account: None,
        }
    }

    /// The settings as the server reads them.
    fn read(text: &str) -> server::config::Settings {
        let source =
            Source { file: Some(PathBuf::from("/sluice.toml")), command_line: CommandLine::default() };
        source.load_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn every_combination_can_be_used() {
        let site = tempfile::tempdir().expect("a directory");
        std::fs::write(site.path().join("index.php"), "").expect("a file");
        for number in 0..256_u32 {
            let is = |bit: u32| number >> bit & 1 == 1;
            let address = "unix:/run/php/php-fpm.sock".to_owned();
            let children = is(2).then(|| (7, PathBuf::from("/etc/php/www.conf")));
            let found = Found {
                has_index: is(0),
                has_scripts: is(1),
                has_front_controller: is(3),
                fpm: is(4).then_some(Fpm { address, children }),
                application: is(5).then(|| Application {
                    address: format!("unix:{}", site.path().join("app.sock").display()),
                    language: is(7).then_some("Python"),
                    has_files: is(0),
                }),
                may_use_port_80: is(6),
                ..found(site.path())
            };
            let hidden = is(6).then(|| Path::new("sluice.toml"));
            let text = of(&found, hidden);
            let settings = read(&text);
            assert_eq!(settings.files.listing, !(is(0) || is(5) && is(7)), "{text}");
            assert_eq!(settings.files.root, site.path());
            let runs_php = is(1) && is(4);
            assert_eq!(settings.files.index_names()[0] == "index.php", runs_php, "{text}");
            assert_eq!(text.contains("children = 7"), runs_php && is(2), "{text}");
            assert_eq!(text.contains("fallback"), runs_php && is(3), "{text}");
        }
    }

    #[test]
    fn names_are_quoted() {
        let site = tempfile::tempdir().expect("a directory");
        let root = site.path().join("a \"b\" \\ c");
        std::fs::create_dir(&root).expect("a directory");
        assert_eq!(read(&of(&found(&root), None)).files.root, root);
    }
}
