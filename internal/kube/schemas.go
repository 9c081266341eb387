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

// Lookup returns what a compiler needs to know of a kind. False says that no server serves
// the kind, and KindInfo whether it may come. A failure to find out is an error.
func (k *Kinds) Lookup(ctx context.Context, gvk schema.GroupVersionKind) (object.KindInfo, bool, error) {
	r, err := k.Resolve(ctx, gvk)
	if IsNoKindMatch(err) {
		siblings := siblingsOf(err)
		if siblings != nil && k.isBuiltIn(gvk.GroupVersion()) {
			return object.KindInfo{NeverServed: true, Siblings: siblings}, false, nil
		}
		return object.KindInfo{}, false, nil
	}
	if err != nil {
		return object.KindInfo{}, false, err
	}
	kind := object.KindInfo{Namespaced: r.Namespaced}
	if c, ok := k.servingCRD(gvk); ok {
		kind.ServedByDefinition = isServedByDefinition(c.CustomResourceDefinition)
		kind.Revision = fmt.Sprintf("%s/%d", c.UID, c.Generation)
		kind.Schema, kind.NameRule = k.crdSchema(gvk, c), object.Subdomain
		return kind, true, nil
	}
	kind.NameRule = object.BuiltInNameRule(gvk.GroupKind())
	kind.Schema, err = k.serverSchema(ctx, gvk)
	return kind, err == nil, err
}

type crdSchema struct {
	of        crd.VersionsDigest
	converted *spec.Schema
}

// crdSchema returns the schema of a kind with a CustomResourceDefinition: the same one for every lookup, because each
// compiled definition keeps the schemas of its kinds. It is converted again only when the versions have changed.
func (k *Kinds) crdSchema(gvk schema.GroupVersionKind, c *crd.Stored) *spec.Schema {
	isKnown := func() (*spec.Schema, bool) { // the lock is held
		known, exists := k.crdSchemas[gvk]
		return known.converted, exists && known.of == c.Versions
	}
	k.mu.RLock()
	known, isUpToDate := isKnown()
	k.mu.RUnlock()
	if isUpToDate {
		return known
	}
	converted := crd.SchemaOf(c.Whole(), gvk.Version)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, isUpToDate := isKnown(); isUpToDate {
		return known
	}
	if k.crds[gvk.GroupKind()] == c {
		k.crdSchemas[gvk] = crdSchema{c.Versions, converted}
	}
	return converted
}

func (k *Kinds) isBuiltIn(gv schema.GroupVersion) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.groups.server[gv] == BuiltIn
}

// isServedByDefinition reports whether a kind belongs to a definition of either dialect: its objects then report their
// readiness themselves.
func isServedByDefinition(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, owned := crd.Owner(c); owned {
		return true
	}
	ref := metav1.GetControllerOfNoCopy(c)
	return ref != nil && ref.Kind == apiextensions.DefinitionKind && strings.HasPrefix(ref.APIVersion, apiextensions.GroupVersion.Group+"/")
}

// A kind without a schema is untyped rather than unusable.
func (k *Kinds) serverSchema(ctx context.Context, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	k.mu.RLock()
	s, ok := k.openAPI[gvk]
	epoch := k.groups.epoch
	k.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := doShared(ctx, &k.flights, fmt.Sprintf("schema of %s in %d", gvk, epoch), func() (*spec.Schema, error) { return k.schemas.ResolveSchema(gvk) })
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch == k.groups.epoch && !k.wasDefined(gvk) {
		k.openAPI[gvk] = s
	}
	return s, nil
}
