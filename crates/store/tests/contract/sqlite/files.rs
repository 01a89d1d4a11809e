//! What only SQLite can do or suffer: its files.

use ipse_store::{DataFolder, Error, Records};
use std::fs;
use std::io::{BufRead, BufReader, Write};

#[tokio::test]
async fn only_the_hash_of_a_key_is_stored() {
    let store = super::store().await;
    let (text, _) = store.key(None).await;
    store.records.close().await;
    for entry in fs::read_dir(store.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let secret = text.reveal().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", path.display());
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let store = super::store().await;
    let folder = DataFolder::create(&store.dir.path().join("other")).unwrap();
    let rubbish = "not a database ".repeat(1000);
    fs::write(folder.database(), &rubbish).unwrap();
    let error = Records::open(&folder).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(fs::read_to_string(folder.database()).unwrap(), rubbish);
}

#[tokio::test]
async fn a_database_with_damaged_pages_is_refused() {
    let store = super::store().await;
    for _ in 0..50 {
        store.key(None).await;
    }
    store.records.close().await;
    let path = store.folder.database();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = match Records::open(&store.folder).await {
        Ok(records) => records.check().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_database_that_another_program_holds_is_said_to_be_held() {
    let store = super::store().await;
    store.records.close().await;
    let mut holder = std::process::Command::new("sqlite3")
        .arg(store.folder.database())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sqlite3 is needed: cargo xtask test installs it");
    let mut commands = holder.stdin.take().unwrap();
    commands.write_all(b"PRAGMA locking_mode = EXCLUSIVE;\nBEGIN EXCLUSIVE;\nSELECT 'held';\n").unwrap();
    let mut told = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(told.any(|line| line.unwrap() == "held"));
    let error = Records::open(&store.folder).await.unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error}");
    drop(commands);
    holder.wait().unwrap();
    store.open().await;
}

#[tokio::test]
async fn the_built_in_engine_has_no_known_corruption() {
    let version = super::store().await.records.engine_version().await.unwrap();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(
        parts >= vec![3, 51, 3],
        "SQLite {version} can damage its write-ahead log; 3.51.3 and later do not"
    );
}
