package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// partialRecord is what an account gathers that may read instances and definitions, and no revisions.
const partialRecord = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: vpc, uid: 526ea21c-4ea4-4725-a37c-cc9a67eeb452, generation: 1}
spec:
  schema: {apiVersion: v1alpha1, kind: Vpc}
  resources: []
status: {state: Active, servingRevision: 1, lastIssuedRevision: 1, observedGeneration: 1}
---
apiVersion: kro.run/v1alpha1
kind: Vpc
metadata:
  name: main
  namespace: team
  uid: 6c6dd21e-bdf1-4829-9a56-80c4d0623b97
  generation: 1
  labels:
    applyset.kubernetes.io/id: applyset-X1WLELXqUsKDQmsNM9SlTUSG67LcBx57qZeaBKTdCo4-v1
    kro.run/owned: "true"
    kro.run/resource-graph-definition-id: 526ea21c-4ea4-4725-a37c-cc9a67eeb452
    kro.run/resource-graph-definition-name: vpc
status:
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", observedGeneration: 1, lastTransitionTime: "2026-11-28T18:54:05Z"}
`

// TestWhyWithoutRevisions checks that why does not call a revision old that it cannot compare with others.
func TestWhyWithoutRevisions(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(record, []byte(partialRecord), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "why", "vpc/main", "-n", "team", "--from", record)
	if code != exitDone || !strings.Contains(stdout, "Vpc team/main is ready") || strings.Contains(stdout, "newest revision") {
		t.Errorf("%d %s", code, stdout)
	}
	if want := "note: cannot say which revision composes it: there are no revisions of its definition vpc"; !strings.Contains(stderr, want) {
		t.Errorf("%s, want %s", stderr, want)
	}
}
