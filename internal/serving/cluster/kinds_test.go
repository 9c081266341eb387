package cluster

import (
	"context"
	"runtime"
	"testing"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestPendingConfirmationsAreLight has a CustomResourceDefinition that was written. Until the watch must
// have delivered it, neither its schema stays in memory nor, once it has stopped, the cluster.
func TestPendingConfirmationsAreLight(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cluster, schema := confirming(ctx)
	for schema.Value() != nil {
		runtime.GC()
	}
	if cluster.Value() == nil {
		t.Fatal("nothing would confirm what was written")
	}
	stop()
	for cluster.Value() != nil {
		runtime.GC()
	}
}

// confirming returns a cluster that has written a CustomResourceDefinition, and its schema.
func confirming(ctx context.Context) (weak.Pointer[Cluster], weak.Pointer[apiextensionsv1.JSONSchemaProps]) {
	k := &Cluster{runContext: ctx}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	k.confirmCRD(&apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}},
	}})
	return weak.Make(k), weak.Make(schema)
}
