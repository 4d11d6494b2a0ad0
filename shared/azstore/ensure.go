package azstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstore/settings"
)

// Names are base names of what a program keeps in its account.
type Names struct{ Containers, Queues, Tables []string }

// Ensure creates what is missing, up to the first mistake. Safe to repeat and to run in several
// processes at once.
//
// A name that was just deleted cannot be created for 30 s or more on Azure
// (…BeingDeleted, 409); that error is returned.
func (a *Account) Ensure(ctx context.Context, names Names) error {
	for _, base := range names.Containers {
		if _, err := a.Container(base).Create(ctx, nil); err != nil && !HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("create container %s: %w", a.Name(base), err)
		}
	}
	for _, base := range names.Queues {
		// The service answers 409 only when the metadata differ, which are not ours.
		if _, err := a.Queue(base).Create(ctx, nil); err != nil && !HasCode(err, queueerror.QueueAlreadyExists) {
			return fmt.Errorf("create queue %s: %w", a.Name(base), err)
		}
	}
	for _, base := range names.Tables {
		if _, err := a.Table(base).CreateTable(ctx, nil); err != nil && !HasCode(err, aztables.TableAlreadyExists) {
			return fmt.Errorf("create table %s: %w", a.Name(base), err)
		}
	}
	return nil
}

// Ensuring sends a request, and once more when it found missing what Ensure makes of names.
func (a *Account) Ensuring(ctx context.Context, names Names, request func() error) error {
	err := request()
	if !HasCode(err, string(queueerror.QueueNotFound), string(bloberror.ContainerNotFound), string(aztables.TableNotFound)) {
		return err
	}
	if err := a.Ensure(ctx, names); err != nil {
		return err
	}
	return request()
}

// ListQueues asks the service which queues there are whose names begin with the account's prefix,
// and returns their whole names. Queues that only an older version declares are among them
// (paper row Q10).
func (a *Account) ListQueues(ctx context.Context) (found []string, _ error) {
	pager := a.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: new(a.prefix)})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		for _, q := range page.Queues {
			found = append(found, *q.Name)
		}
	}
	return found, nil
}

// What a page in a browser needs to create a blob with a URL of SignCreate (the valet key), and
// no more.
const (
	corsMethods = "PUT"
	corsAllowed = "content-md5,if-none-match,x-ms-blob-type,x-ms-version"
	corsMaxAge  = 3600 // seconds
)

// What EnsureCORS keeps and tries. A service takes 64 origins in a rule and 2 KiB
// for all rules together.
// https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services
const (
	corsLoopback = 16 // origins on loopback: the newest
	corsRounds   = 8
	corsPause    = 200 * time.Millisecond // between rounds, at most
)

// EnsureCORS lets pages of these origins, such as "http://127.0.0.1:8080", call
// the blob service with signed URLs. Rules that others made are kept. Of origins on
// loopback only the newest stay: a free port is another one at every start. Safe to repeat.
//
// The service's properties have no ETag, so two writers at once lose one of the changes
// (https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties): it
// reads back what it wrote, and writes again until its origins are there.
//
// An identity with a data role of Azure may not do it: there, deployment sets the rules, and a
// 403 may be ignored.
func (a *Account) EnsureCORS(ctx context.Context, origins []string) error {
	if len(origins) == 0 {
		return nil
	}
	for range corsRounds {
		have, err := a.Blobs.GetProperties(ctx, nil)
		if err != nil {
			return fmt.Errorf("read blob service properties: %w", err)
		}
		rules, missing := corsWith(have.CORS, origins)
		if !missing {
			return nil
		}
		if _, err := a.Blobs.SetProperties(ctx, &service.SetPropertiesOptions{CORS: rules}); err != nil {
			return fmt.Errorf("set CORS rules of the blob service: %w", err)
		}
		if err := Sleep(ctx, rand.N(corsPause)); err != nil {
			return err
		}
	}
	return errors.New("set CORS rules of the blob service: others keep changing them")
}

// corsWith adds the origins to our rule, as its newest. The newest stands first.
func corsWith(rules []*service.CORSRule, origins []string) (changed []*service.CORSRule, missing bool) {
	changed = slices.Clone(rules)
	i := slices.IndexFunc(rules, func(r *service.CORSRule) bool {
		return r.AllowedOrigins != nil && r.AllowedMethods != nil && r.AllowedHeaders != nil &&
			*r.AllowedMethods == corsMethods && *r.AllowedHeaders == corsAllowed
	})
	if i < 0 {
		i, changed = len(rules), append(changed, &service.CORSRule{AllowedOrigins: new("")})
	}
	have := strings.FieldsFunc(*changed[i].AllowedOrigins, func(r rune) bool { return r == ',' })
	kept, onLoopback := slices.Clone(origins), len(origins)
	for _, origin := range have {
		if slices.Contains(kept, origin) {
			continue
		}
		// Only browsers on one host see pages of an origin on loopback.
		if u, err := url.Parse(origin); err == nil && settings.IsLoopback(u.Hostname()) {
			if onLoopback++; onLoopback > corsLoopback {
				continue
			}
		}
		kept = append(kept, origin)
	}
	changed[i] = &service.CORSRule{
		AllowedOrigins:  new(strings.Join(kept, ",")),
		AllowedMethods:  new(corsMethods),
		AllowedHeaders:  new(corsAllowed),
		ExposedHeaders:  new(""),
		MaxAgeInSeconds: new(int32(corsMaxAge)),
	}
	return changed, slices.ContainsFunc(origins, func(origin string) bool { return !slices.Contains(have, origin) })
}
