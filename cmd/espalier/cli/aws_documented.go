package cli

import (
	"bytes"
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/openapi"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const (
	// documentedTimeout bounds how long activate waits for the documentation of kinds that are served already.
	documentedTimeout = 10 * time.Second
	documentedPoll    = 100 * time.Millisecond
)

// awaitDocumented waits until the API server has the schemas of the served kinds in its OpenAPI documents, which kubectl
// explain and kubectl's validation read: it publishes them a moment after it serves a kind. There is no watch for them.
// That it takes too long, or that they cannot be read, is no error: the kinds are served.
func awaitDocumented(ctx context.Context, documents openapi.Client, a *v1alpha1.ResourceTypeActivation) {
	missing := map[string][]string{} // kinds by group
	for _, t := range a.Status.Types {
		if kind, group, ok := strings.Cut(t.Kind, "."); ok && t.State == resource.StateServed {
			missing[group] = append(missing[group], kind)
		}
	}
	read := map[string]bool{} // documents by their address, which has their digest
	_ = wait.PollUntilContextTimeout(ctx, documentedPoll, documentedTimeout, true, func(context.Context) (bool, error) {
		paths, err := documents.Paths()
		if err != nil {
			return false, err
		}
		for path, document := range paths {
			group, _, _ := strings.Cut(strings.TrimPrefix(path, "apis/"), "/")
			if missing[group] == nil || read[document.ServerRelativeURL()] {
				continue
			}
			text, err := document.Schema("application/json")
			if err != nil {
				return false, err
			}
			read[document.ServerRelativeURL()] = true
			if hasKinds(text, missing[group]) {
				delete(missing, group)
			}
		}
		return len(missing) == 0, nil
	})
}

// hasKinds reports whether an OpenAPI document has schemas of all kinds.
func hasKinds(document []byte, kinds []string) bool {
	for _, kind := range kinds {
		if !bytes.Contains(document, []byte(`"kind":"`+kind+`"`)) {
			return false
		}
	}
	return true
}
