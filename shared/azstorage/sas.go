package azstorage

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

func (a *Account) sign(ctx context.Context, values sas.BlobSignatureValues, life time.Duration) (sas.QueryParameters, error) {
	if a.key != nil {
		return values.SignWithSharedKey(a.key)
	}
	lent, err := a.delegation(ctx, life)
	if err != nil {
		return sas.QueryParameters{}, err
	}
	return values.SignWithUserDelegation(lent)
}

// delegation is a key that the blob service lends to an identity, so that it
// can sign without the account's key.
type delegation struct {
	credential *service.UserDelegationCredential
	until      time.Time // as the service says
}

// A delegation key lives up to 7 days; we take 12 h, and always more than the
// URL that it signs.
const (
	delegationLife = 12 * time.Hour
	delegationMax  = 7 * 24 * time.Hour
	delegationRest = time.Minute // beyond the URL's life, for a clock that is behind
)

// delegation returns a key that outlives a URL of this life: the one that was lent before, or a
// new one.
func (a *Account) delegation(ctx context.Context, life time.Duration) (*service.UserDelegationCredential, error) {
	if life > delegationMax-time.Hour {
		return nil, fmt.Errorf("a URL signed by an identity lives at most %s", delegationMax-time.Hour)
	}
	a.signing.Lock()
	defer a.signing.Unlock()
	now := time.Now().UTC()
	needed := now.Add(life + delegationRest)
	if a.grant.credential != nil && a.grant.until.After(needed) {
		return a.grant.credential, nil
	}
	credential, err := a.Blobs.GetUserDelegationCredential(ctx, service.KeyInfo{
		Start:  new(now.Add(-15 * time.Minute).Format(sas.TimeFormat)),
		Expiry: new(now.Add(max(delegationLife, life+time.Hour)).Format(sas.TimeFormat)),
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("get user delegation key: %w", err)
	}
	until, err := keyEnd(credential)
	if err != nil {
		return nil, fmt.Errorf("read user delegation key: %w", err)
	}
	if until.Before(needed.Truncate(time.Second)) {
		return nil, fmt.Errorf("the user delegation key ends %s, before the URL that it would sign", until.Format(time.RFC3339))
	}
	a.grant = delegation{credential: credential, until: until}
	return credential, nil
}

// keyEnd reads from a signature when the key ends: the SDK shows it nowhere else.
func keyEnd(credential *service.UserDelegationCredential) (time.Time, error) {
	signed, err := sas.BlobSignatureValues{
		ExpiryTime: time.Now().UTC(), Permissions: new(sas.BlobPermissions{Create: true}).String(), ContainerName: "any", BlobName: "any",
	}.SignWithUserDelegation(credential)
	return signed.SignedExpiry(), err
}
