package azstorage

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Azurite's account is the same everywhere and is no secret:
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

const defaultEndpointSuffix = "core.windows.net"

// AzuriteConnectionString returns the connection string of an emulator that
// listens on these ports of the loopback address.
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
