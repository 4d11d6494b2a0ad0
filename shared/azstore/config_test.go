package azstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
)

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	got, err := azstore.ConfigFromEnv(env(nil), "LETTERS")
	if err != nil {
		t.Fatal(err)
	}
	want := azstore.Config{
		ConnectionString: azstore.AzuriteConnectionString(10000, 10001, 10002),
		Retry:            azstore.DefaultRetry,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	a, err := azstore.Open(got)
	if err != nil {
		t.Fatal(err)
	}
	if url := a.Container("media").URL(); url != "http://127.0.0.1:10000/devstoreaccount1/media" {
		t.Errorf("container URL %s", url)
	}
}

func TestConfigFromEnv(t *testing.T) {
	t.Parallel()
	got, err := azstore.ConfigFromEnv(env(map[string]string{
		"AZURE_STORAGE_ACCOUNT": "films", "LETTERS_PREFIX": "stage2", "LETTERS_RETRY_STRATEGY": "fixed", "LETTERS_RETRY_MAX": "2",
		"LETTERS_RETRY_DELAY": "3s", "LETTERS_RETRY_MIN_DELAY": "0s", "LETTERS_RETRY_MAX_DELAY": "1m", "LETTERS_TRY_TIMEOUT": "5s",
		"OTHER_PREFIX": "other", "_RETRY_MAX": "7",
	}), "LETTERS")
	if err != nil {
		t.Fatal(err)
	}
	want := azstore.Config{
		Account: "films", Prefix: "stage2",
		Retry: azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 2, Delay: 3 * time.Second, MaxDelay: time.Minute, TryTimeout: 5 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestOneErrorListsEveryBadVariable(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": "AccountName=x;AccountKey=not base64 but secret",
		"AZURE_STORAGE_ACCOUNT":           "both",
		"LETTERS_PREFIX":                  "Not-Ok",
		"AZURITE_BLOB_PORT":               "0",
		"AZURITE_QUEUE_PORT":              "x",
		"AZURITE_TABLE_PORT":              "70000",
		"LETTERS_RETRY_STRATEGY":          "hope",
		"LETTERS_RETRY_MAX":               "-1",
		"LETTERS_RETRY_DELAY":             "1",
		"LETTERS_RETRY_MIN_DELAY":         "a while",
		"LETTERS_RETRY_MAX_DELAY":         "0s",
		"LETTERS_TRY_TIMEOUT":             "1h",
	}
	_, err := azstore.ConfigFromEnv(env(bad), "LETTERS")
	if err == nil {
		t.Fatal("no error")
	}
	for name := range bad {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("the error does not name %s:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the connection string:\n%v", err)
	}
	_, err = azstore.ConfigFromEnv(env(map[string]string{"LETTERS_RETRY_MIN_DELAY": "9s"}), "LETTERS")
	if err == nil || !strings.Contains(err.Error(), "LETTERS_RETRY_MIN_DELAY") {
		t.Errorf("minimal delay above the maximal: %v", err)
	}
}

// What editors and other tools leave at the ends of a connection string is not part of it.
func TestConnectionStringIsTidied(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"UseDevelopmentStorage=true;", "\uFEFFUseDevelopmentStorage=true\r\n", " usedevelopmentstorage=TRUE "} {
		got, err := azstore.ConfigFromEnv(env(map[string]string{"AZURE_STORAGE_CONNECTION_STRING": text, "AZURITE_BLOB_PORT": "11000"}), "")
		if err != nil || got.ConnectionString != azstore.AzuriteConnectionString(11000, 10001, 10002) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]azstore.Config{
		"signature only": {ConnectionString: "BlobEndpoint=https://a.example;SharedAccessSignature=sv=1&sig=abc"},
		"no key":         {ConnectionString: "AccountName=a"},
		"no pairs":       {ConnectionString: "nonsense"},
		"bad endpoint":   {ConnectionString: "AccountName=a;AccountKey=aaaa;BlobEndpoint=ftp://x"},
		"bad prefix":     {Prefix: "1abc"},
		"long prefix":    {Prefix: "abcdefghijkl"},
		"both":           {Account: "a", ConnectionString: azstore.DevelopmentStorage},
		"bad strategy":   {Retry: azstore.Retry{Strategy: "maybe", MaxRetries: 1}},
		"many retries":   {Retry: azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 1000}},
	} {
		if _, err := azstore.Open(cfg); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "sig=") {
			t.Errorf("%s: the error shows a signature: %v", name, err)
		}
	}
}

func TestEndpointsOfARealAccount(t *testing.T) {
	t.Parallel()
	a, err := azstore.Open(azstore.Config{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=films;AccountKey=c2VjcmV0;EndpointSuffix=core.example", Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.Container("media").URL(), "https://films.blob.core.example/pmedia"; got != want {
		t.Errorf("container %s, want %s", got, want)
	}
	if got, want := a.Queue("probe").URL(), "https://films.queue.core.example/pprobe"; got != want {
		t.Errorf("queue %s, want %s", got, want)
	}
}
