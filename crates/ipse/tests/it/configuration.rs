//! Flags, environment and file, as the program reads them.

use crate::commands::ipse;
use std::fs;

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ipse.toml");
    fs::write(&file, "colo = \"AAA\"\nmax_connections = 7\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\ndata_dir = \"from-file\"\n").unwrap();
    let output = ipse(dir.path(), &["config", "show", "--config", file.to_str().unwrap(), "--colo", "CCC"])
        .env("IPSE_COLO", "BBB")
        .env("IPSE_MAX_CONNECTIONS", "8")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| {
        shown.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap().to_owned()
    };
    assert!(line("colo").contains("CCC") && line("colo").contains("flag --colo"), "{shown}");
    assert!(
        line("max_connections").contains('8')
            && line("max_connections").contains("environment IPSE_MAX_CONNECTIONS")
    );
    assert!(line("listen").contains("127.0.0.1:1, [::1]:1") && line("listen").contains("ipse.toml"));
    assert!(
        line("docs_url").contains("http://localhost:1/docs"),
        "what is left out is shown as it is made: {shown}"
    );
    assert!(line("log_level").contains("info") && line("log_level").contains("default"));
}

#[test]
fn everything_wrong_is_reported_at_once_and_nothing_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ipse.toml");
    fs::write(&file, "colour = \"red\"\nlog_format = \"xml\"\nlisten = 5\nmax_connections = [1]\n").unwrap();
    for command in [&["config", "check"][..], &["serve"], &[]] {
        let output = ipse(dir.path(), command)
            .args([
                "--config",
                file.to_str().unwrap(),
                "--trusted-proxy",
                "everyone",
                "--drain-seconds",
                "-1",
                "--terms-file",
                "nowhere.md",
            ])
            .env("IPSE_COLO", "nowhere")
            .env("IPSE_COLOUR", "red")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        for part in [
            "colour: no such setting",
            "log_format: \"xml\" is not allowed; allowed is text or json",
            "listen: \"5\" is not allowed",
            "max_connections: must be one text or number",
            "flag --trusted-proxy: \"everyone\" is not allowed",
            "flag --drain-seconds: \"-1\" is not allowed; allowed is a number from 0 to 3600",
            "flag --terms-file: nowhere.md cannot be read: No such file or directory",
            "environment IPSE_COLO: \"nowhere\" is not allowed; allowed is an IATA code",
            "environment IPSE_COLOUR: no such setting",
        ] {
            assert!(error.contains(part), "{part} is missing in {error}");
        }
        assert!(!dir.path().join("ipse-data").exists(), "nothing is made before the configuration is valid");
    }
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = |file: &str| {
        let output = ipse(dir.path(), &["config", "check", "--config", file]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error("nowhere.toml").contains("file nowhere.toml: cannot be read"));
    fs::write(dir.path().join("broken.toml"), "colo = \"AMS\"\nthis is = = no toml\n").unwrap();
    assert!(error("broken.toml").contains("file broken.toml, line 2: not TOML"), "{}", error("broken.toml"));
}

#[test]
fn what_kubernetes_says_of_a_service_named_ipse_is_no_setting() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = [
        ("IPSE_PORT", "tcp://10.0.0.1:8080"),
        ("IPSE_SERVICE_HOST", "10.0.0.1"),
        ("IPSE_PORT_8080_TCP", "x"),
    ];
    let output = ipse(dir.path(), &["config", "check"]).envs(theirs).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_valid_configuration_is_said_to_be_valid() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        ipse(dir.path(), &["config", "check", "--trusted-proxy", "none", "--colo", "ams"]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("is valid"));
}
