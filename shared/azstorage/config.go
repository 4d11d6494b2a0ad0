package azstorage

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/cutroom/cutroom/shared/settings"
)

// DevelopmentStorage is the connection string that means "Azurite on this host".
const DevelopmentStorage = "UseDevelopmentStorage=true"

// Config says which account to open and how.
//
// Set ConnectionString, or Account; with neither, Open uses DevelopmentStorage.
type Config struct {
	// ConnectionString is the account's connection string with its key.
	ConnectionString string
	// Account is an account name; identities then come from Credential.
	Account string
	// EndpointSuffix completes Account's host names. Default "core.windows.net".
	EndpointSuffix string
	// Credential signs requests when Account is set. Nil means
	// DefaultAzureCredential: environment, workload identity, managed identity, az login.
	Credential azcore.TokenCredential

	// Prefix is put before every container, queue and table name: a lower-case
	// letter and at most 10 more lower-case letters or digits, or empty.
	Prefix string

	// Azurite's ports, for DevelopmentStorage. 0 means 10000, 10001 and 10002.
	BlobPort, QueuePort, TablePort int

	// Retry is the strategy of every call. The zero value means DefaultRetry.
	Retry Retry

	// Transport sends the requests. Nil means one shared http.Transport; tests
	// put a fault injector here.
	Transport policy.Transporter

	// Seen, if set, is told of every try of every request when its answer begins, for
	// metrics. It must be quick and safe for concurrent use.
	Seen func(Try)

	// Unreadable, if set, is told of rows of a table that could not be read, given the
	// table's base name, and of none when the table is opened. As quick and safe as Seen.
	Unreadable func(table string, rows int)
}

// Try is one try of a request to storage.
type Try struct {
	Kind   RequestKind
	Status int           // of the answer; 0 when there was none
	Took   time.Duration // until the answer began
}

// Throttled reports whether the service refused the request because there are too many.
func (t Try) Throttled() bool {
	return t.Status == http.StatusTooManyRequests || t.Status == http.StatusServiceUnavailable
}

// UsesAzurite reports whether the configuration names the emulator by its short form.
func (c Config) UsesAzurite() bool {
	return c.Account == "" && (c.ConnectionString == "" || c.ConnectionString == DevelopmentStorage)
}

// LogValue is what a log shows of it: where requests go and how they are
// repeated, and not the account's key.
func (c Config) LogValue() slog.Value {
	to, err := c.resolve()
	if err != nil {
		return slog.StringValue("unusable") // Open says why
	}
	return slog.GroupValue(slog.String("blobs", to.blob), slog.String("queues", to.queue), slog.String("tables", to.table),
		slog.Bool("key", to.key != ""), slog.String("prefix", c.Prefix), slog.Any("retry", c.Retry))
}

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,10}$`)

// validate returns one error for everything that is wrong.
func (c Config) validate() error {
	var errs []error
	if c.Prefix != "" && !prefixPattern.MatchString(c.Prefix) {
		errs = append(errs, fmt.Errorf("prefix %q: want a letter and at most 10 letters or digits, all lower case", c.Prefix))
	}
	if c.Account != "" && c.ConnectionString != "" {
		errs = append(errs, errors.New("both an account and a connection string: set one"))
	}
	return errors.Join(append(errs, c.Retry.validate())...)
}

// tidy takes from a connection string what editors and other tools leave at its ends.
func tidy(text string) string {
	text = strings.Trim(strings.TrimPrefix(text, "\uFEFF"), "; \t\r\n")
	if strings.EqualFold(text, DevelopmentStorage) {
		return DevelopmentStorage
	}
	return text
}

// ConfigFromEnv reads the configuration through getenv, which is os.Getenv or a
// test's own. One error lists every bad variable.
//
//	AZURE_STORAGE_CONNECTION_STRING   default UseDevelopmentStorage=true
//	AZURE_STORAGE_ACCOUNT             instead of a connection string: use DefaultAzureCredential
//	AZURE_STORAGE_ENDPOINT_SUFFIX     default core.windows.net; with AZURE_STORAGE_ACCOUNT only
//	AZURITE_BLOB_PORT, AZURITE_QUEUE_PORT, AZURITE_TABLE_PORT   default 10000, 10001, 10002
//	CUTROOM_PREFIX                    default empty
//	CUTROOM_RETRY_STRATEGY            none, fixed, exponential (default)
//	CUTROOM_RETRY_MAX                 retries after the first try, 0 to 20; default 5
//	CUTROOM_RETRY_DELAY               z, 1ms to 10m; default 500ms
//	CUTROOM_RETRY_MIN_DELAY           zmin, 0 to 10m; default 100ms
//	CUTROOM_RETRY_MAX_DELAY           cap, 1ms to 30m; default 8s
//	CUTROOM_TRY_TIMEOUT               first try's time-out, 100ms to 10m; default 30s
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	env := settings.Reader{Getenv: getenv}
	c := Config{
		ConnectionString: tidy(getenv("AZURE_STORAGE_CONNECTION_STRING")),
		Account:          getenv("AZURE_STORAGE_ACCOUNT"),
		EndpointSuffix:   getenv("AZURE_STORAGE_ENDPOINT_SUFFIX"),
		Prefix:           getenv("CUTROOM_PREFIX"),
		BlobPort:         env.Int("AZURITE_BLOB_PORT", 10000, 1, 65535),
		QueuePort:        env.Int("AZURITE_QUEUE_PORT", 10001, 1, 65535),
		TablePort:        env.Int("AZURITE_TABLE_PORT", 10002, 1, 65535),
	}
	if c.Account == "" && c.ConnectionString == "" {
		c.ConnectionString = DevelopmentStorage
	}
	if c.Account != "" && c.ConnectionString != "" {
		env.Bad("AZURE_STORAGE_ACCOUNT", errors.New("AZURE_STORAGE_CONNECTION_STRING is set too: set one of them"))
	}
	if c.ConnectionString != "" && c.ConnectionString != DevelopmentStorage {
		_, err := parseConnectionString(c.ConnectionString)
		env.Bad("AZURE_STORAGE_CONNECTION_STRING", err)
	}
	if c.Prefix != "" && !prefixPattern.MatchString(c.Prefix) {
		env.Bad("CUTROOM_PREFIX", fmt.Errorf("%q: want a letter and at most 10 letters or digits, all lower case", c.Prefix))
	}

	c.Retry = DefaultRetry
	c.Retry.Strategy = Strategy(env.Text("CUTROOM_RETRY_STRATEGY", string(c.Retry.Strategy)))
	if !c.Retry.Strategy.known() {
		env.Bad("CUTROOM_RETRY_STRATEGY", fmt.Errorf("%q: want none, fixed or exponential", c.Retry.Strategy))
	}
	c.Retry.MaxRetries = env.Int("CUTROOM_RETRY_MAX", c.Retry.MaxRetries, 0, maxRetries)
	c.Retry.Delay = env.Duration("CUTROOM_RETRY_DELAY", c.Retry.Delay, time.Millisecond, 10*time.Minute)
	c.Retry.MinDelay = env.Duration("CUTROOM_RETRY_MIN_DELAY", c.Retry.MinDelay, 0, 10*time.Minute)
	c.Retry.MaxDelay = env.Duration("CUTROOM_RETRY_MAX_DELAY", c.Retry.MaxDelay, time.Millisecond, 30*time.Minute)
	c.Retry.TryTimeout = env.Duration("CUTROOM_TRY_TIMEOUT", c.Retry.TryTimeout, 100*time.Millisecond, 10*time.Minute)
	if c.Retry.MinDelay > c.Retry.MaxDelay {
		env.Bad("CUTROOM_RETRY_MIN_DELAY", fmt.Errorf("%s is more than CUTROOM_RETRY_MAX_DELAY, %s", c.Retry.MinDelay, c.Retry.MaxDelay))
	}
	return c, env.Err()
}
