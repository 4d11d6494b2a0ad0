package azstorage

import (
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// checksums sends the content of blobs and blocks with its MD5, so that the service refuses
// what was changed on the way (paper row Q12).
type checksums struct{}

// Do implements policy.Policy.
func (checksums) Do(req *policy.Request) (*http.Response, error) {
	what := req.Raw().URL.Query().Get("comp")
	body := req.Body()
	if body == nil || req.Raw().Method != http.MethodPut || what != "" && what != "block" {
		return req.Next()
	}
	sum := md5.New() //nolint:gosec // see the import
	if _, err := io.Copy(sum, body); err != nil {
		return nil, fmt.Errorf("read the body of a request: %w", err)
	}
	if err := req.RewindBody(); err != nil {
		return nil, fmt.Errorf("rewind the body of a request: %w", err)
	}
	req.Raw().Header["Content-MD5"] = []string{base64.StdEncoding.EncodeToString(sum.Sum(nil))} // not canonical: the SDK signs it so
	return req.Next()
}
