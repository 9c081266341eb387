package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Lookup tells a compiler what is known of a kind; false says that no server
// knows it, and whether it may come. That it couldn't be found out is an error.
func (k *Kinds) Lookup(ctx context.Context, gvk schema.GroupVersionKind) (object.KindInfo, bool, error) {
	r, err := k.Resolve(ctx, gvk)
	if IsUnavailable(err) {
		siblings := siblingsOf(err)
		if siblings != nil && k.isBuiltIn(gvk.GroupVersion()) {
			return object.KindInfo{Absent: true, Siblings: siblings}, false, nil
		}
		return object.KindInfo{}, false, nil
	}
	if err != nil {
		return object.KindInfo{}, false, err
	}
	kind := object.KindInfo{Namespaced: r.Namespaced}
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		kind.Nested = isServedHere(c)
		kind.Revision = fmt.Sprintf("%s/%d", c.UID, c.Generation)
		kind.Schema, kind.Names = crd.SchemaOf(c, gvk.Version), object.Subdomain
		return kind, true, nil
	}
	kind.Names = object.BuiltInNames(gvk.GroupKind())
	kind.Schema, err = k.serverSchema(ctx, gvk)
	return kind, err == nil, err
}

// isBuiltIn says whether the API server is built with a version of a group.
func (k *Kinds) isBuiltIn(gv schema.GroupVersion) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.groups.server[gv] == BuiltIn
}

// isServedHere says whether a kind is a definition's, in either dialect: its objects say
// themselves whether they are ready.
func isServedHere(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, owned := crd.Owner(c); owned {
		return true
	}
	ref := metav1.GetControllerOfNoCopy(c)
	return ref != nil && ref.Kind == apiextensions.DefinitionKind && strings.HasPrefix(ref.APIVersion, apiextensions.GroupVersion.Group+"/")
}

// serverSchema reads the OpenAPI schema of a kind that the server builds in. A
// kind that has none is untyped rather than unusable.
func (k *Kinds) serverSchema(ctx context.Context, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	k.mu.RLock()
	s, ok := k.typed[gvk]
	epoch := k.groups.epoch
	k.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := ask(ctx, &k.flights, fmt.Sprintf("schema of %s in %d", gvk, epoch), func() (*spec.Schema, error) { return k.schemas.ResolveSchema(gvk) })
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch == k.groups.epoch && !k.defined[gvk.GroupKind()] {
		k.typed[gvk] = s
	}
	return s, nil
}
