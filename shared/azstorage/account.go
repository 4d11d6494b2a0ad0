package azstorage

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Account is an open storage account. It is safe for concurrent use; one
// process needs one.
type Account struct {
	prefix  string
	blobs   *service.Client
	queues  *azqueue.ServiceClient
	tables  *aztables.ServiceClient
	key     *azblob.SharedKeyCredential // nil with a token credential
	seen    func(Try)
	secure  bool // https: signed URLs refuse http
	idle    func()
	clock   clock
	signing chan struct{} // a lock that a context can wait for
	grant   delegation    // guarded by signing

	unreadable func(table string, rows int) // may be nil
}

// Open makes the clients. It sends nothing, so a wrong key shows at the first call.
func Open(cfg Config) (*Account, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open storage account: %w", err)
	}
	ends, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("open storage account: %w", err)
	}
	if cfg.Retry == (Retry{}) {
		cfg.Retry = DefaultRetry
	}
	a := &Account{prefix: cfg.Prefix, seen: cfg.Seen, unreadable: cfg.Unreadable, secure: len(ends.blob) > 5 && ends.blob[:5] == "https", signing: make(chan struct{}, 1), idle: func() {}}
	transport := cfg.Transport
	if transport == nil {
		client := newHTTPClient()
		transport, a.idle = client, client.CloseIdleConnections
	}
	options := policy.ClientOptions{
		Transport: transport,
		// The SDK's own retries are off: cfg.Retry is the one strategy.
		Retry:           policy.RetryOptions{MaxRetries: -1},
		PerCallPolicies: []policy.Policy{redactor{}, &retryPolicy{retry: cfg.Retry}},
	}
	if ends.key != "" {
		err = a.openWithKey(ends, options)
	} else {
		err = a.openWithToken(ends, cfg.Credential, options)
	}
	if err != nil {
		return nil, fmt.Errorf("open storage account %s: %w", ends.account, RedactError(err))
	}
	return a, nil
}

// clientOptions returns the options for the clients of one service.
func (a *Account) clientOptions(s Service, options policy.ClientOptions) policy.ClientOptions {
	policies := slices.Concat([]policy.Policy{spans(s), marker(s)}, options.PerCallPolicies)
	switch s {
	case Blobs:
		policies = append(policies, checksums{})
	case Tables:
		policies = append(policies, asciiRows{})
	}
	options.PerCallPolicies = append(policies, &a.clock, counting{s, a.seen})
	return options
}

func (a *Account) openWithKey(ends endpoints, options policy.ClientOptions) error {
	var err error
	if a.key, err = azblob.NewSharedKeyCredential(ends.account, ends.key); err != nil {
		return err
	}
	if a.blobs, err = service.NewClientWithSharedKeyCredential(ends.blob+"/", a.key, &service.ClientOptions{ClientOptions: a.clientOptions(Blobs, options)}); err != nil {
		return err
	}
	queueKey, err := azqueue.NewSharedKeyCredential(ends.account, ends.key)
	if err != nil {
		return err
	}
	if a.queues, err = azqueue.NewServiceClientWithSharedKeyCredential(ends.queue+"/", queueKey, &azqueue.ClientOptions{ClientOptions: a.clientOptions(Queues, options)}); err != nil {
		return err
	}
	tableKey, err := aztables.NewSharedKeyCredential(ends.account, ends.key)
	if err != nil {
		return err
	}
	a.tables, err = aztables.NewServiceClientWithSharedKey(ends.table, tableKey, &aztables.ClientOptions{ClientOptions: a.clientOptions(Tables, options)})
	return err
}

func (a *Account) openWithToken(ends endpoints, credential azcore.TokenCredential, options policy.ClientOptions) error {
	var err error
	if credential == nil {
		if credential, err = identityCredential(); err != nil {
			return err
		}
	}
	credential = &tokens{credential: credential}
	if a.blobs, err = service.NewClient(ends.blob+"/", credential, &service.ClientOptions{ClientOptions: a.clientOptions(Blobs, options)}); err != nil {
		return err
	}
	if a.queues, err = azqueue.NewServiceClient(ends.queue+"/", credential, &azqueue.ClientOptions{ClientOptions: a.clientOptions(Queues, options)}); err != nil {
		return err
	}
	a.tables, err = aztables.NewServiceClient(ends.table, credential, &aztables.ClientOptions{ClientOptions: a.clientOptions(Tables, options)})
	return err
}

// newHTTPClient is shared by every client of one account. Idle connections are
// dropped after 3 s, before Azurite drops them at 5 s: a request on a
// connection that the server is closing would be reset.
func newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       3 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}}
}

// Prefix is what Name puts before a base name; often empty.
func (a *Account) Prefix() string { return a.prefix }

// Name returns the name of a container, queue or table in the account: prefix + base.
func (a *Account) Name(base string) string { return a.prefix + base }

// Container returns the client of a blob container, given its base name.
func (a *Account) Container(base string) *container.Client {
	return a.blobs.NewContainerClient(a.Name(base))
}

// Queue returns the client of a queue, given its base name.
func (a *Account) Queue(base string) *azqueue.QueueClient {
	return a.queues.NewQueueClient(a.Name(base))
}

// Table is the client of a table that knows where it belongs.
type Table struct {
	*aztables.Client

	Account *Account
	Base    string // its name without the prefix
}

// Table returns the client of a table, given its base name. Wrap it with
// tablestore.New, which keeps the service's limits.
func (a *Account) Table(base string) Table { return Table{a.tables.NewClient(a.Name(base)), a, base} }

// CountUnreadable tells Config.Unreadable.
func (a *Account) CountUnreadable(table string, rows int) {
	if a.unreadable != nil {
		a.unreadable(table, rows)
	}
}

// ServiceBlobs returns the client of the blob service.
func (a *Account) ServiceBlobs() *service.Client { return a.blobs }

// ServiceQueues returns the client of the queue service.
func (a *Account) ServiceQueues() *azqueue.ServiceClient { return a.queues }

// ServiceTables returns the client of the table service.
func (a *Account) ServiceTables() *aztables.ServiceClient { return a.tables }

// CloseIdle closes connections that no request uses. The account stays usable.
// It does nothing when Config.Transport was given.
func (a *Account) CloseIdle() { a.idle() }
