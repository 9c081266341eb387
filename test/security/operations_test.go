package security

import (
	"io/fs"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestOnlyWhoMayUseAnAccountHasItInAnOperation has authors name an account in each of the kinds of operations.
func TestOnlyWhoMayUseAnAccountHasItInAnOperation(t *testing.T) {
	s := suite.New(t)
	files, err := fs.Glob(ops.CRDs, "crds/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		raw, err := fs.ReadFile(ops.CRDs, file)
		if err != nil {
			t.Fatal(err)
		}
		o := s.Apply(t, string(raw))[0]
		s.Await(t, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", o.GetName(), suite.HasCondition("Established", "True", ""))
	}
	const operations = `{apiGroups: [ops.crossplane.io], resources: ["*"], verbs: [create, get, patch]}`
	stranger := user(t, s, "stranger", "", "["+operations+"]")
	allowed := user(t, s, "allowed", "", "["+operations+`, {apiGroups: [""], resources: [serviceaccounts], resourceNames: [builder], verbs: [use]}]`)
	const spec = "{ACCOUNT pipeline: [{step: a, functionRef: {name: function-go-templating}}]}"
	const account = "serviceAccount: {namespace: $NS, name: builder},"
	all := map[string]string{
		"Operation":      spec,
		"CronOperation":  `{schedule: "0 0 30 2 *", operationTemplate: {spec: ` + spec + "}}",
		"WatchOperation": "{watch: {apiVersion: v1, kind: ConfigMap, namespace: $NS}, operationTemplate: {spec: " + spec + "}}",
	}
	text := func(kind, account string) string {
		return "{apiVersion: ops.crossplane.io/v1alpha1, kind: " + kind + ", metadata: {name: $ID-x}, spec: " + strings.ReplaceAll(all[kind], "ACCOUNT", account) + "}"
	}
	awaitPolicies(t, s, stranger, text("Operation", account))
	for kind := range all {
		err := apply(t, s, stranger, text(kind, account))
		if want := "may not use service account builder of namespace " + s.NS; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := apply(t, s, stranger, text(kind, "")); err != nil {
			t.Errorf("%s without an account: %v", kind, err)
		}
		if err := apply(t, s, stranger, text(kind, account)); !apierrors.IsForbidden(err) {
			t.Errorf("%s with an account that it names later: %v", kind, err)
		}
		if err := apply(t, s, allowed, text(kind, account)); err != nil {
			t.Errorf("%s of a user of the account: %v", kind, err)
		}
	}
}
