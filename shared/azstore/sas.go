package azstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// SignCreate returns the valet key of one blob that is not there yet: a URL that
// creates it. Storage refuses to read, replace or delete a blob that is there; it allows
// snapshots, which go with the blob. Check what was created: size and content are the holder's
// word. container is a base name. Keep the URL out of logs: see Redact.
func (a *Account) SignCreate(ctx context.Context, container, blob string, life time.Duration) (string, error) {
	if life <= 0 {
		return "", errors.New("sign blob URL: life must be positive")
	}
	// snippet: narrow-key
	values := sas.BlobSignatureValues{
		// No start time: it would refuse callers whose clock is behind.
		ExpiryTime:    time.Now().UTC().Add(life),
		Permissions:   new(sas.BlobPermissions{Create: true}).String(),
		ContainerName: a.Name(container),
		BlobName:      blob,
		Protocol:      sas.ProtocolHTTPS,
	}
	// end snippet
	if !a.secure {
		values.Protocol = sas.ProtocolHTTPSandHTTP // Azurite
	}
	query, err := a.sign(ctx, values, life)
	if err != nil {
		return "", fmt.Errorf("sign URL of blob %s/%s: %w", values.ContainerName, blob, err)
	}
	return a.Container(container).NewBlobClient(blob).URL() + "?" + query.Encode(), nil
}

const (
	delegationLife = 12 * time.Hour     // what we take, if it is more than the URL needs
	delegationMax  = 7 * 24 * time.Hour // the service's limit
	delegationRest = time.Minute        // beyond the URL's life, for a clock that is behind
)

// sign signs with the account's key, or with one that the blob service lends to an identity:
// the latest, or a new one if that does not outlive the URL.
func (a *Account) sign(ctx context.Context, values sas.BlobSignatureValues, life time.Duration) (signed sas.QueryParameters, err error) {
	if a.key != nil {
		return values.SignWithSharedKey(a.key)
	}
	a.signing.Lock()
	defer a.signing.Unlock()
	needed := values.ExpiryTime.Add(delegationRest).Truncate(time.Second)
	if a.lent != nil {
		signed, err = values.SignWithUserDelegation(a.lent)
	}
	if err == nil && signed.SignedExpiry().Before(needed) {
		now := time.Now().UTC()
		a.lent, err = a.Blobs.GetUserDelegationCredential(ctx, service.KeyInfo{
			Start:  new(now.Add(-15 * time.Minute).Format(sas.TimeFormat)),
			Expiry: new(now.Add(min(max(delegationLife, life+time.Hour), delegationMax)).Format(sas.TimeFormat)),
		}, nil)
		if err != nil {
			return signed, fmt.Errorf("get user delegation key: %w", err)
		}
		signed, err = values.SignWithUserDelegation(a.lent)
	}
	if end := signed.SignedExpiry(); err == nil && end.Before(needed) {
		err = fmt.Errorf("the user delegation key ends %s, before the URL that it would sign", end.Format(time.RFC3339))
	}
	return signed, err
}
