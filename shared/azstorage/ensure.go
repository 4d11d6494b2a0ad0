package azstorage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// Ensure creates the containers, queues and tables, given by base name, that
// are missing. Safe to repeat and to run in several processes at once.
//
// A name that was just deleted cannot be created for 30 s or more on Azure
// (…BeingDeleted, 409); that error is returned.
func (a *Account) Ensure(ctx context.Context, containers, queues, tables []string) error {
	var errs []error
	for _, base := range containers {
		if _, err := a.Container(base).Create(ctx, nil); err != nil && !HasCode(err, CodeContainerExists) {
			errs = append(errs, fmt.Errorf("create container %s: %w", a.Name(base), err))
		}
	}
	for _, base := range queues {
		// The service answers 409 only when the metadata differ, and the
		// metadata belong to workqueue: a queue that is there is right.
		if _, err := a.Queue(base).Create(ctx, nil); err != nil && !HasCode(err, CodeQueueAlreadyExists) {
			errs = append(errs, fmt.Errorf("create queue %s: %w", a.Name(base), err))
		}
	}
	for _, base := range tables {
		if _, err := a.Table(base).CreateTable(ctx, nil); err != nil && !HasCode(err, CodeTableAlreadyExists) {
			errs = append(errs, fmt.Errorf("create table %s: %w", a.Name(base), err))
		}
	}
	return errors.Join(errs...)
}

// What a browser needs to upload blocks with a signed URL (the valet key) and
// to read what came of it.
const (
	corsMethods = "GET,HEAD,PUT,OPTIONS"
	corsAllowed = "x-ms-*,content-type,content-md5,range,if-match,if-none-match"
	corsExposed = "x-ms-*,etag,content-length,content-range,content-md5"
	corsMaxAge  = 3600 // seconds
)

// EnsureCORS lets pages of these origins, such as "http://127.0.0.1:8080", call
// the blob service with signed URLs. Rules that others made are kept. Safe to
// repeat; it writes only when something is missing. The service takes five rules
// at most; a sixth is its error.
//
// It needs a right that data roles of Azure do not have: there, deployment sets
// the rules and the caller may ignore a 403.
func (a *Account) EnsureCORS(ctx context.Context, origins []string) error {
	if len(origins) == 0 {
		return nil
	}
	have, err := a.blobs.GetProperties(ctx, nil)
	if err != nil {
		return fmt.Errorf("read blob service properties: %w", err)
	}
	rules := have.CORS
	missing := slices.DeleteFunc(slices.Clone(origins), func(origin string) bool {
		return slices.ContainsFunc(rules, func(r *service.CORSRule) bool { return corsAllows(r, origin) })
	})
	if len(missing) == 0 {
		return nil
	}
	if own := slices.IndexFunc(rules, ownRule); own >= 0 {
		rules[own].AllowedOrigins = to.Ptr(*rules[own].AllowedOrigins + "," + strings.Join(missing, ","))
	} else {
		rules = append(rules, &service.CORSRule{
			AllowedOrigins:  to.Ptr(strings.Join(missing, ",")),
			AllowedMethods:  to.Ptr(corsMethods),
			AllowedHeaders:  to.Ptr(corsAllowed),
			ExposedHeaders:  to.Ptr(corsExposed),
			MaxAgeInSeconds: to.Ptr[int32](corsMaxAge),
		})
	}
	if _, err := a.blobs.SetProperties(ctx, &service.SetPropertiesOptions{CORS: rules}); err != nil {
		return fmt.Errorf("set CORS rules of the blob service: %w", err)
	}
	return nil
}

func corsAllows(r *service.CORSRule, origin string) bool {
	return ownRule(r) && slices.ContainsFunc(strings.Split(*r.AllowedOrigins, ","), func(o string) bool { return o == origin || o == "*" })
}

// ownRule recognises the rule that EnsureCORS makes.
func ownRule(r *service.CORSRule) bool {
	return r.AllowedOrigins != nil && r.AllowedMethods != nil && r.AllowedHeaders != nil &&
		*r.AllowedMethods == corsMethods && *r.AllowedHeaders == corsAllowed
}
