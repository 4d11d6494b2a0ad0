package main

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestDocument: docs/openapi.yaml is a valid OpenAPI document, and the pruned
// copy in the binary has no operation that the document lacks.
func TestDocument(t *testing.T) {
	t.Parallel()
	source, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	embedded, err := document()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range embedded.Paths.Map() {
		for method, operation := range item.Operations() {
			want := source.Paths.Value(path)
			if want == nil || want.GetOperation(method) == nil || !strings.EqualFold(want.GetOperation(method).OperationID, operation.OperationID) {
				t.Errorf("%s %s is in the binary and not in the document: run make generate", method, path)
			}
		}
	}
}
