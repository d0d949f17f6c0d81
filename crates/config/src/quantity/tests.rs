use super::*;

fn millis(text: &str) -> Option<u128> {
    span(text).ok().map(|span| span.as_millis())
}

#[test]
fn durations_have_a_number_and_a_unit() {
    assert_eq!(millis("250ms"), Some(250));
    assert_eq!(millis("5s"), Some(5_000));
    assert_eq!(millis("10m"), Some(600_000));
    assert_eq!(millis("2h"), Some(7_200_000));
    assert_eq!(millis("30d"), Some(2_592_000_000));
    assert_eq!(millis("0s"), Some(0));
    assert_eq!(millis("1.5s"), Some(1_500));
    assert_eq!(millis("0.5ms"), Some(0));
    assert_eq!(span("0.5ms"), Ok(Duration::from_micros(500)));
    assert_eq!(millis("9m30s"), Some(570_000));
    assert_eq!(millis("1h0m1s1ms"), Some(3_601_001));
}

#[test]
fn what_is_no_duration_is_none() {
    for text in [
        "", "s", "5", "5.", ".5s", "5.s", "1..5s", "5 s", "5S", "5min", "5s5", "30s9m", "5s5s", "-5s", "+5s",
        "1e3s", "∞s", "9e9d", "4000d",
    ] {
        assert_eq!(millis(text), None, "{text}");
    }
}

#[test]
fn durations_are_shown_as_they_would_be_written() {
    for text in ["0s", "250ms", "1500ms", "5s", "90s", "10m", "2h", "30d"] {
        assert_eq!(written(span(text).unwrap()), text);
    }
    assert_eq!(written(Duration::from_secs(60)), "1m");
}

#[test]
fn shares_are_percentages_or_fractions() {
    assert_eq!(share("5%"), Ok(0.05));
    assert_eq!(share("0.05"), Ok(0.05));
    assert_eq!(share("12.5 %"), Ok(0.125));
    assert_eq!((share("0"), share("1"), share("100%")), (Ok(0.0), Ok(1.0), Ok(1.0)));
    for text in ["", "%", "5", "101%", "-5%", "5 percent", "NaN", "inf"] {
        assert!(share(text).is_err(), "{text}");
    }
}

#[test]
fn sizes_know_binary_and_decimal_units() {
    assert_eq!(size("64KiB"), Ok(65_536));
    assert_eq!(size("64MiB"), Ok(67_108_864));
    assert_eq!(size("1GiB"), Ok(1_073_741_824));
    assert_eq!(size("1.5 KiB"), Ok(1_536));
    assert_eq!((size("10MB"), size("10kB"), size("1GB")), (Ok(10_000_000), Ok(10_000), Ok(1_000_000_000)));
    assert_eq!((size("4096"), size("4096B")), (Ok(4_096), Ok(4_096)));
    for text in ["", "0", "KiB", "64M", "64mib", "64KiBs", "-1", "1e9", "99999999GiB"] {
        assert!(size(text).is_err(), "{text}");
    }
}

#[test]
fn money_is_a_number_of_dollars() {
    assert_eq!(micro_usd("0.27"), Ok(270_000));
    assert_eq!(micro_usd("1.10"), Ok(1_100_000));
    assert_eq!(micro_usd("0.000001"), Ok(1));
    assert_eq!((micro_usd("0"), micro_usd("500")), (Ok(0), Ok(500_000_000)));
    for text in ["", "$1", "1 USD", "-1", "1,5", "1e3", "9999999999"] {
        assert!(micro_usd(text).is_err(), "{text}");
    }
}
