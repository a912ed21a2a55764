//! Links under each policy, and attempts to leave the root.

use super::*;

fn site(symlinks: Symlinks) -> Site {
    let site = Site::with(|settings| settings.symlinks = symlinks);
    fs::write(site.keep.path().join("secret"), "secret").unwrap();
    fs::create_dir(site.keep.path().join("private")).unwrap();
    fs::write(site.keep.path().join("private/secret"), "secret").unwrap();
    site.write("file", "inside");
    site.write("sub/file", "inside");
    let link = |target: &FsPath, name: &str| symlink(target, site.path(name)).unwrap();
    link("file".as_ref(), "beneath");
    link("../file".as_ref(), "sub/up");
    link("sub".as_ref(), "directory");
    link(&site.keep.path().join("secret"), "absolute");
    link("../secret".as_ref(), "relative");
    link("../private".as_ref(), "through");
    link("../../secret".as_ref(), "sub/deep");
    link("loop".as_ref(), "loop");
    site
}

const INSIDE: [&str; 3] = ["/beneath", "/sub/up", "/directory/file"];
const OUTSIDE: [&str; 5] = ["/absolute", "/relative", "/through/secret", "/sub/deep", "/directory/deep"];

#[test]
fn beneath_the_root_they_are_followed() {
    let mut site = site(Symlinks::Beneath);
    for target in INSIDE {
        assert_eq!(site.get(target).text(), "inside", "{target}");
    }
    for target in OUTSIDE {
        assert_eq!(site.status(target), 404, "{target}");
    }
    assert_eq!(site.status("/loop"), 404);
    assert_eq!(site.status("/through"), 404, "not even a redirect");
    assert_eq!(site.status("/directory"), 301);
}

/// Links may begin with any name of the root, and have anything else on the way.
#[test]
fn absolute_ones_into_the_root_are_followed() {
    let mut site = site(Symlinks::Beneath);
    let base = site.keep.path().to_owned();
    let root = site.settings.root.clone();
    symlink("root", base.join("current")).unwrap();
    symlink("root/sub", base.join("elsewhere")).unwrap();
    fs::create_dir(base.join("root-of-another")).unwrap();
    fs::write(base.join("root-of-another/file"), "secret").unwrap();
    site.write("sub/.hidden", "hidden");
    let link = |target: PathBuf, name: &str| symlink(target, site.path(name)).unwrap();
    let current = base.join("current");
    for (target, name) in [
        (root.join("file"), "to-file"),
        (root.join("./sub//file"), "to-deep-file"),
        (root.join("sub"), "to-directory"),
        (root.clone(), "to-root"),
        (root.join("sub/../file"), "climbing-within"),
        (root.join("beneath"), "to-relative"),
        (root.join("to-file"), "to-absolute"),
        (root.join("to-directory/up"), "through-absolute"),
        (PathBuf::from("to-directory/../to-file"), "relative-to-absolute"),
        (root.join("sub/.hidden"), "to-hidden"),
        (root.join("../secret"), "climbing-out"),
        (root.join("sub/../../secret"), "climbing-out-of-sub"),
        (root.join("to-root/../secret"), "climbing-out-of-root"),
        (base.join("root-of-another/file"), "to-another"),
        (root.join("absolute"), "to-outside"),
        (base.join("elsewhere/file"), "by-outside"),
        (root.join("round-2"), "round-1"),
        (root.join("round-1"), "round-2"),
        (current.join("file"), "by-configured-name"),
    ] {
        link(target, name);
    }
    for i in 0..50 {
        link(root.join(format!("chain-{}", i + 1)), &format!("chain-{i}"));
    }
    link(root.join("file"), "chain-50");
    let inside = [
        "/to-file",
        "/to-deep-file",
        "/to-directory/file",
        "/to-root/to-root/to-directory/file",
        "/climbing-within",
        "/to-relative",
        "/to-absolute",
        "/through-absolute",
        "/relative-to-absolute",
        "/chain-30",
    ];
    let outside = [
        "/climbing-out",
        "/climbing-out-of-sub",
        "/climbing-out-of-root",
        "/to-another",
        "/to-outside",
        "/by-outside",
        "/round-1",
        "/chain-0",
        "/to-hidden",
        "/to-directory/.hidden",
    ];
    for target in inside {
        assert_eq!(site.get(target).text(), "inside", "{target}");
    }
    assert_eq!(site.status("/to-directory"), 301);
    assert_eq!(site.status("/by-configured-name"), 404);
    site.reconfigure(|settings| settings.root = current);
    for target in inside.into_iter().chain(["/by-configured-name"]) {
        assert_eq!(site.get(target).text(), "inside", "{target}");
    }
    for target in outside {
        assert_eq!(site.status(target), 404, "{target}");
    }
    site.reconfigure(|settings| settings.dotfiles = true);
    for target in outside {
        let is_hidden = target.ends_with("hidden");
        assert_eq!(site.status(target), if is_hidden { 200 } else { 404 }, "{target}");
    }
    site.reconfigure(|settings| settings.symlinks = Symlinks::None);
    for target in inside {
        assert_eq!(site.status(target), 404, "{target}");
    }
}

#[test]
fn none_or_any() {
    let mut none = site(Symlinks::None);
    for target in INSIDE.iter().chain(&OUTSIDE) {
        assert_eq!(none.status(target), 404, "{target}");
    }
    assert_eq!(none.get("/sub/file").text(), "inside");
    let mut any = site(Symlinks::Any);
    for target in INSIDE {
        assert_eq!(any.get(target).text(), "inside", "{target}");
    }
    for target in OUTSIDE {
        assert_eq!(any.get(target).text(), "secret", "{target}");
    }
    assert_eq!(any.status("/../secret"), 400, "paths can't climb all the same");
}

#[test]
fn a_link_that_is_turned_outwards_is_noticed() {
    let mut site = site(Symlinks::Beneath);
    assert_eq!(site.get("/beneath").text(), "inside");
    fs::remove_file(site.path("beneath")).unwrap();
    symlink("../secret", site.path("beneath")).unwrap();
    site.later();
    assert_eq!(site.status("/beneath"), 404);
}

#[test]
fn no_link_shows_what_its_own_name_hides() {
    let hidden = |symlinks, dotfiles| {
        let site = Site::with(|settings| {
            (settings.symlinks, settings.dotfiles, settings.listing) = (symlinks, dotfiles, true);
        });
        site.write(".env", "key");
        site.write(".git/config", "key");
        site.write("sub/.deep/file", "key");
        site.write(".well-known/file", "public");
        site.write("file", "public");
        site.write("file.gz", "public");
        for (to, link) in [
            (".env", "env"),
            (".git", "git"),
            (".git/config", "config"),
            ("sub/.deep/file", "deep"),
            ("git/config", "twice"),
            (".well-known/file", "known"),
            ("file", "public"),
            (".env", "public.gz"),
        ] {
            symlink(to, site.path(link)).unwrap();
        }
        site
    };
    for symlinks in [Symlinks::Beneath, Symlinks::Any] {
        let mut site = hidden(symlinks, false);
        for target in ["/env", "/git", "/git/", "/git/config", "/config", "/deep", "/twice"] {
            assert_eq!(site.status(target), 404, "{target}");
        }
        for target in ["/known", "/public", "/file"] {
            let reply = site.get_with(target, "Accept-Encoding: gzip");
            assert_eq!((reply.status, reply.text()), (200, "public"), "{target}");
        }
        let listing = site.get("/");
        for link in ["env", "git", "config", "deep", "twice"] {
            assert!(!listing.text().contains(&format!(">{link}")), "{}", listing.text());
        }
        assert!(listing.text().contains(">known<") && listing.text().contains(">public<"));
        let mut site = hidden(symlinks, true);
        for target in ["/env", "/git/config", "/config", "/deep", "/twice", "/.env"] {
            assert_eq!(site.get(target).text(), "key", "{target}");
        }
    }
}
