//! A real browser without a window, driven as `WebDriver` says (<https://www.w3.org/TR/webdriver2/>).

use std::{
    env, fs,
    future::Future,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gwp_race_tests::children::Guarded;
use serde_json::{Value, json};
use thirtyfour::{
    By, ChromiumLikeCapabilities as _, DesiredCapabilities, LoggingPrefsLogLevel, WebDriver,
    WebElement, error::WebDriverResult, support::block_on,
};

/// Where pictures of the pages are put, if that is wanted.
const PICTURES: &str = "GWP_RACE_PICTURES";
/// How long a page may take to come, and how often it is looked whether it has.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// The most that a picture shows of a page, pixels from its top.
const MOST_HEIGHT: u64 = 1500;

/// A browser, which ends with this.
pub struct Browser {
    driver: Option<WebDriver>,
    /// Before it is gone, the browser is told to end; it is this one's child.
    _server: Guarded,
    _home: tempfile::TempDir,
}

/// How it shows pages.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Pixels.
    pub width: u64,
    pub is_dark: bool,
}

impl Browser {
    /// Starts it, with settings and files of its own.
    pub fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        command.args(["--port=0", "--allowed-ips=127.0.0.1"]);
        command.env("HOME", home.path()).env("TMPDIR", home.path());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn();
        let mut server = Guarded::new(child.expect("`cargo xtask browser` installs it"));
        let said = BufReader::new(server.child().stdout.take().unwrap());
        let port = said.lines().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let address = format!("http://127.0.0.1:{}", port.unwrap());
        let mut wanted = DesiredCapabilities::chrome();
        let driver = done(async {
            // Whoever tests is root as a rule, and what is shown is our own.
            for argument in [
                "--headless=new",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ] {
                wanted.add_arg(argument)?;
            }
            wanted.set_browser_log_level(LoggingPrefsLogLevel::All)?;
            WebDriver::new(address, wanted).await
        });
        Self {
            driver: Some(driver),
            _server: server,
            _home: home,
        }
    }

    fn driver(&self) -> &WebDriver {
        self.driver.as_ref().expect("it has not ended")
    }

    /// Goes to an address.
    pub fn go(&self, address: &str) {
        done(self.driver().goto(address));
    }

    /// The title of the page.
    pub fn title(&self) -> String {
        done(self.driver().title())
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        done(self.driver().current_url()).to_string()
    }

    /// The first element that fits.
    pub fn find(&self, selector: &str) -> WebElement {
        done(self.driver().find(By::Css(selector)))
    }

    /// The text of all elements that fit, as it is seen.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let found = done(self.driver().find_all(By::Css(selector)));
        found
            .into_iter()
            .map(|element| done(async move { element.text().await }))
            .collect()
    }

    /// Clicks on the first element that fits.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        done(async move { element.click().await });
    }

    /// Clicks on the first element that fits, and waits for the page to which that leads.
    pub fn follow(&self, selector: &str) {
        let before = self.find("html");
        self.click(selector);
        let begun = Instant::now();
        while block_on(before.is_present()).unwrap_or(false) {
            assert!(begun.elapsed() < PATIENCE, "{selector} leads nowhere");
            std::thread::sleep(POLL);
        }
    }

    /// Types into the first element that fits.
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        let text = text.to_owned();
        done(async move { element.send_keys(text).await });
    }

    /// What a script of the test says in the page, whatever is forbidden to those of the page.
    pub fn ask(&self, script: &str) -> Value {
        let answer = done(self.driver().execute(script, Vec::new()));
        answer.json().clone()
    }

    /// Asks for something that only the debugger's protocol has.
    fn tell(&self, method: &str, with: Value) {
        done(self.driver().cdp().send_raw(method, with));
    }

    /// Forbids scripts to pages from now on, or allows them.
    pub fn allow_scripts(&self, are_allowed: bool) {
        let with = json!({ "value": !are_allowed });
        self.tell("Emulation.setScriptExecutionDisabled", with);
    }

    /// Shows pages as on this screen from now on.
    pub fn show_on(&self, screen: Screen) {
        self.show(screen, 900);
        let scheme = if screen.is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.tell(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }

    fn show(&self, screen: Screen, height: u64) {
        let metrics = json!({ "width": screen.width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.tell("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// What the browser has complained of since the last time.
    pub fn complaints(&self) -> Vec<String> {
        let log = done(self.driver().browser_log());
        let entries = log.into_iter();
        entries
            .map(|entry| format!("{}: {}", entry.level, entry.message))
            .collect()
    }

    /// Puts a picture of the page where such are wanted.
    pub fn picture(&self, screen: Screen, name: &str) {
        let Some(folder) = env::var_os(PICTURES) else {
            return;
        };
        let height = self.ask("scrollTo(0, 0); return document.documentElement.scrollHeight");
        self.show(screen, height.as_u64().unwrap().min(MOST_HEIGHT));
        let picture = done(self.driver().screenshot_as_png());
        fs::write(Path::new(&folder).join(name), picture).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            // It is killed with its server where it does not end by itself.
            let _ = block_on(driver.quit());
        }
    }
}

/// What comes of it.
fn done<T: Send>(what: impl Future<Output = WebDriverResult<T>> + Send) -> T {
    block_on(what).unwrap()
}
