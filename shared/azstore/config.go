package azstore

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/cutroom/cutroom/shared/azstore/settings"
)

// DevelopmentStorage is the connection string that means "Azurite on this host".
const DevelopmentStorage = "UseDevelopmentStorage=true"

// Config says which account to open and how: by ConnectionString or Account; with neither,
// Open uses DevelopmentStorage.
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

// LogValue is what a log shows of it, without the account's key.
func (c Config) LogValue() slog.Value {
	to, err := c.resolve()
	if err != nil {
		return slog.StringValue("unusable") // Open says why
	}
	return slog.GroupValue(slog.String("blobs", to.blob), slog.String("queues", to.queue), slog.String("tables", to.table),
		slog.Bool("key", to.key != ""), slog.String("prefix", c.Prefix), slog.Any("retry", c.Retry))
}

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,10}$`)

// resolve returns where requests go, or one error for everything that is wrong.
func (c Config) resolve() (ends endpoints, _ error) {
	var errs [3]error
	if c.Prefix != "" && !prefixPattern.MatchString(c.Prefix) {
		errs[0] = fmt.Errorf("prefix %q: want a letter and at most 10 letters or digits, all lower case", c.Prefix)
	}
	switch {
	case c.Account != "" && c.ConnectionString != "":
		errs[1] = errors.New("both an account and a connection string: set one of them")
	case c.Account != "":
		ends = accountEndpoints(c.Account, "", "https", cmp.Or(c.EndpointSuffix, defaultEndpointSuffix))
	default:
		ends, errs[1] = parseConnectionString(c.ConnectionString)
	}
	errs[2] = c.Retry.validate()
	return ends, errors.Join(errs[:]...)
}

// OpenFromEnv opens the account that the environment of this process names: see [ConfigFromEnv].
func OpenFromEnv(program string) (*Account, error) {
	cfg, err := ConfigFromEnv(os.Getenv, program)
	if err != nil {
		return nil, fmt.Errorf("open storage account: %w", err)
	}
	return Open(cfg)
}

// ConfigFromEnv reads the configuration through getenv, such as os.Getenv; what is empty
// counts as unset. The program's own variables begin with its name, here LETTERS. One error
// lists every bad variable.
//
//	AZURE_STORAGE_CONNECTION_STRING   default UseDevelopmentStorage=true
//	AZURE_STORAGE_ACCOUNT             instead of a connection string: use DefaultAzureCredential
//	AZURE_STORAGE_ENDPOINT_SUFFIX     default core.windows.net; with AZURE_STORAGE_ACCOUNT only
//	AZURITE_BLOB_PORT, AZURITE_QUEUE_PORT, AZURITE_TABLE_PORT   default 10000, 10001, 10002
//	LETTERS_PREFIX                    default empty
//	LETTERS_RETRY_STRATEGY            none, fixed, exponential (default)
//	LETTERS_RETRY_MAX                 retries after the first try, 0 to 20; default 5
//	LETTERS_RETRY_DELAY               z, 1ms to 10m; default 500ms
//	LETTERS_RETRY_MIN_DELAY           zmin, 0 to 10m; default 100ms
//	LETTERS_RETRY_MAX_DELAY           cap, 1ms to 30m; default 8s
//	LETTERS_TRY_TIMEOUT               first try's time-out, 100ms to 10m; default 30s
func ConfigFromEnv(getenv func(string) string, program string) (Config, error) {
	env := settings.Reader{Getenv: getenv}
	c := Config{
		ConnectionString: env.Text("AZURE_STORAGE_CONNECTION_STRING", ""),
		Account:          env.Text("AZURE_STORAGE_ACCOUNT", ""),
		EndpointSuffix:   env.Text("AZURE_STORAGE_ENDPOINT_SUFFIX", ""),
		Prefix:           env.Text(program+"_PREFIX", ""),
		Retry: Retry{
			Strategy:   Strategy(env.Text(program+"_RETRY_STRATEGY", string(DefaultRetry.Strategy))),
			MaxRetries: env.Int(program+"_RETRY_MAX", DefaultRetry.MaxRetries, 0, maxRetries),
			Delay:      env.Duration(program+"_RETRY_DELAY", DefaultRetry.Delay, time.Millisecond, 10*time.Minute),
			MinDelay:   env.Duration(program+"_RETRY_MIN_DELAY", DefaultRetry.MinDelay, 0, 10*time.Minute),
			MaxDelay:   env.Duration(program+"_RETRY_MAX_DELAY", DefaultRetry.MaxDelay, time.Millisecond, 30*time.Minute),
			TryTimeout: env.Duration(program+"_TRY_TIMEOUT", DefaultRetry.TryTimeout, 100*time.Millisecond, 10*time.Minute),
		},
	}
	azurite := AzuriteConnectionString(env.Int("AZURITE_BLOB_PORT", 10000, 1, 65535),
		env.Int("AZURITE_QUEUE_PORT", 10001, 1, 65535), env.Int("AZURITE_TABLE_PORT", 10002, 1, 65535))
	check := func(name string, part Config) {
		_, err := part.resolve()
		env.Bad(name, err)
	}
	check("AZURE_STORAGE_CONNECTION_STRING", Config{ConnectionString: c.ConnectionString})
	if c.Account != "" {
		check("AZURE_STORAGE_ACCOUNT", Config{Account: c.Account, ConnectionString: c.ConnectionString})
	}
	check(program+"_PREFIX", Config{Prefix: c.Prefix})
	check(program+"_RETRY_STRATEGY", Config{Retry: Retry{Strategy: c.Retry.Strategy}})
	check(program+"_RETRY_MIN_DELAY", Config{Retry: Retry{
		Strategy: Exponential, MinDelay: c.Retry.MinDelay, MaxDelay: c.Retry.MaxDelay,
	}})
	if c.Account == "" && isDevelopment(c.ConnectionString) {
		c.ConnectionString = azurite
	}
	return c, env.Err()
}

// Azurite's account is the same everywhere and is no secret:
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

const defaultEndpointSuffix = "core.windows.net"

// AzuriteConnectionString returns that of an emulator on these ports of the loopback address.
func AzuriteConnectionString(blobPort, queuePort, tablePort int) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;"+
		"BlobEndpoint=http://127.0.0.1:%d/%s;QueueEndpoint=http://127.0.0.1:%d/%s;TableEndpoint=http://127.0.0.1:%d/%s;",
		azuriteAccount, azuriteKey, blobPort, azuriteAccount, queuePort, azuriteAccount, tablePort, azuriteAccount)
}

// endpoints is what a connection string or an account name comes to.
type endpoints struct {
	account, key       string // key is empty with a token credential
	blob, queue, table string // service URLs, each without a final slash
}

func accountEndpoints(account, key, scheme, suffix string) endpoints {
	host := func(service string) string { return scheme + "://" + account + "." + service + "." + suffix }
	return endpoints{account: account, key: key, blob: host("blob"), queue: host("queue"), table: host("table")}
}

// tidy takes from a connection string what editors and other tools leave at its ends.
func tidy(text string) string { return strings.Trim(strings.TrimPrefix(text, "\uFEFF"), "; \t\r\n") }

func isDevelopment(text string) bool {
	text = tidy(text)
	return text == "" || strings.EqualFold(text, DevelopmentStorage)
}

// parseConnectionString reads Key=Value pairs. Its errors never quote the text:
// a connection string is a secret.
func parseConnectionString(text string) (endpoints, error) {
	if isDevelopment(text) {
		text = AzuriteConnectionString(10000, 10001, 10002)
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(tidy(text), ";") {
		key, value, found := strings.Cut(pair, "=")
		if !found && strings.TrimSpace(pair) != "" {
			return endpoints{}, errors.New("connection string: want Key=Value pairs with semicolons between them")
		}
		values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	if values["sharedaccesssignature"] != "" {
		return endpoints{}, errors.New("connection string: a SharedAccessSignature cannot sign upload URLs; use an AccountKey, or an account name with an identity")
	}
	account, key := values["accountname"], values["accountkey"]
	if account == "" || key == "" {
		return endpoints{}, errors.New("connection string: AccountName and AccountKey are required")
	}
	if _, err := base64.StdEncoding.DecodeString(key); err != nil {
		return endpoints{}, errors.New("connection string: AccountKey is not base64")
	}
	ends := accountEndpoints(account, key, cmp.Or(values["defaultendpointsprotocol"], "https"), cmp.Or(values["endpointsuffix"], defaultEndpointSuffix))
	for name, dst := range map[string]*string{"blobendpoint": &ends.blob, "queueendpoint": &ends.queue, "tableendpoint": &ends.table} {
		value := values[name]
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" {
			return endpoints{}, fmt.Errorf("connection string: %s is not an http or https URL without a query", name)
		}
		*dst = strings.TrimSuffix(value, "/")
	}
	return ends, nil
}
