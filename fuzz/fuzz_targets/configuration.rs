//! The configuration file: any text gives settings, which print as a file that gives them again, or errors
//! that say where and why.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::config::{ConfigError, Place, Source};

fuzz_target!(|text: &str| {
    let source = Source::default();
    match source.load_text(text) {
        Ok(settings) => {
            let printed = settings.to_toml();
            match source.load_text(&printed) {
                Ok(again) => assert_eq!(again, settings, "{printed}"),
                Err(error) => panic!("{error}\n{printed}"),
            }
        }
        Err(ConfigError::Problems(problems)) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(!problem.what.is_empty(), "{problem:?}");
                if let Place::File { line, column, .. } = problem.place {
                    assert!(
                        line >= 1 && line <= text.lines().count().max(1) + 1 && column >= 1,
                        "{problem:?}"
                    );
                }
            }
        }
        Err(error) => panic!("{error}"),
    }
});
