package azstore

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Account is an open storage account. It is safe for concurrent use.
type Account struct {
	// The clients of the three services.
	Blobs  *service.Client
	Queues *azqueue.ServiceClient
	Tables *aztables.ServiceClient

	prefix  string
	key     *azblob.SharedKeyCredential // nil with a token credential
	secure  bool                        // https: signed URLs refuse http
	http    *http.Client                // of no use when Config.Transport was given
	ahead   atomic.Int64                // of our clock is the service's, a time.Duration
	signing sync.Mutex
	lent    *service.UserDelegationCredential // guarded by signing

	unreadable func(table string, rows int) // may be nil
}

// Open makes the clients. It sends nothing, so a wrong key shows at the first call.
func Open(cfg Config) (*Account, error) {
	ends, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("open storage account: %w", err)
	}
	if cfg.Retry == (Retry{}) {
		cfg.Retry = DefaultRetry
	}
	a := &Account{
		prefix: cfg.Prefix, unreadable: cfg.Unreadable, secure: strings.HasPrefix(ends.blob, "https:"), http: newHTTPClient(),
	}
	if cfg.Transport == nil {
		cfg.Transport = a.http
	}
	options := func(s Service, more ...policy.Policy) policy.ClientOptions {
		return policy.ClientOptions{
			Transport: cfg.Transport,
			// The SDK's own retries are off: cfg.Retry is the one strategy.
			Retry:           policy.RetryOptions{MaxRetries: -1},
			PerCallPolicies: slices.Concat([]policy.Policy{operation(s), &retryPolicy{cfg.Retry}}, more, []policy.Policy{tries{s, cfg.Seen, &a.ahead}}),
		}
	}
	blobs := &service.ClientOptions{ClientOptions: options(Blobs, checksums{})}
	queues := &azqueue.ClientOptions{ClientOptions: options(Queues)}
	tables := &aztables.ClientOptions{ClientOptions: options(Tables, asciiRows{})}
	if ends.key != "" {
		err = a.openWithKey(ends, blobs, queues, tables)
	} else {
		err = a.openWithToken(ends, cfg.Credential, blobs, queues, tables)
	}
	if err != nil {
		return nil, fmt.Errorf("open storage account: %w", err)
	}
	return a, nil
}

func (a *Account) openWithKey(ends endpoints, blobs *service.ClientOptions, queues *azqueue.ClientOptions, tables *aztables.ClientOptions) error {
	blobKey, blobErr := azblob.NewSharedKeyCredential(ends.account, ends.key)
	queueKey, queueErr := azqueue.NewSharedKeyCredential(ends.account, ends.key)
	tableKey, tableErr := aztables.NewSharedKeyCredential(ends.account, ends.key)
	if err := errors.Join(blobErr, queueErr, tableErr); err != nil {
		return err
	}
	a.key = blobKey
	a.Blobs, blobErr = service.NewClientWithSharedKeyCredential(ends.blob+"/", blobKey, blobs)
	a.Queues, queueErr = azqueue.NewServiceClientWithSharedKeyCredential(ends.queue+"/", queueKey, queues)
	a.Tables, tableErr = aztables.NewServiceClientWithSharedKey(ends.table, tableKey, tables)
	return errors.Join(blobErr, queueErr, tableErr)
}

func (a *Account) openWithToken(
	ends endpoints, credential azcore.TokenCredential, blobs *service.ClientOptions, queues *azqueue.ClientOptions, tables *aztables.ClientOptions,
) (err error) {
	if credential == nil {
		options := azidentity.DefaultAzureCredentialOptions{}
		options.Retry.MaxRetries = -1 // cfg.Retry is the one strategy
		if credential, err = azidentity.NewDefaultAzureCredential(&options); err != nil {
			return err
		}
	}
	credential = &tokens{credential: credential}
	var blobErr, queueErr, tableErr error
	a.Blobs, blobErr = service.NewClient(ends.blob+"/", credential, blobs)
	a.Queues, queueErr = azqueue.NewServiceClient(ends.queue+"/", credential, queues)
	a.Tables, tableErr = aztables.NewServiceClient(ends.table, credential, tables)
	return errors.Join(blobErr, queueErr, tableErr)
}

// newHTTPClient is shared by every client of one account. Azurite drops idle connections
// after 5 s, and a request on one that the server is closing would be reset.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 512, 256
	transport.IdleConnTimeout = 3 * time.Second
	return &http.Client{Transport: transport}
}

// Prefix is what Name puts before a base name; often empty.
func (a *Account) Prefix() string { return a.prefix }

// Name returns the name of a container, queue or table in the account: prefix + base.
func (a *Account) Name(base string) string { return a.prefix + base }

// Container returns the client of a blob container, given its base name.
func (a *Account) Container(base string) *container.Client {
	return a.Blobs.NewContainerClient(a.Name(base))
}

// Queue returns the client of a queue, given its base name.
func (a *Account) Queue(base string) *azqueue.QueueClient {
	return a.Queues.NewQueueClient(a.Name(base))
}

// Table returns the client of a table, given its base name: see package tablestore.
func (a *Account) Table(base string) *aztables.Client { return a.Tables.NewClient(a.Name(base)) }

// CountUnreadable tells Config.Unreadable.
func (a *Account) CountUnreadable(table string, rows int) {
	if a.unreadable != nil {
		a.unreadable(table, rows)
	}
}

// CloseIdle closes connections that no request uses. The account stays usable.
func (a *Account) CloseIdle() { a.http.CloseIdleConnections() }
