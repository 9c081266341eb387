package backup

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

func (e *Export) readManaged(ctx context.Context) error {
	for _, gvk := range e.kinds.managed {
		reset := func() {
			e.spool.dropKind(archive.Managed, object.Key{Group: gvk.Group, Kind: gvk.Kind})
			maps.DeleteFunc(e.managed, func(_ types.UID, m *managedResource) bool { return m.kind == gvk })
		}
		err := e.each(ctx, gvk, reset, func(o *unstructured.Unstructured) error {
			if !e.Selection.IncludesManaged(o, e.instances) {
				return nil
			}
			e.managed[o.GetUID()] = &managedResource{key: object.KeyOf(o), kind: gvk, deleting: o.GetDeletionTimestamp() != nil}
			return e.putManaged(o)
		})
		if err != nil {
			return err
		}
	}
	e.Progress("read %d managed resources", len(e.managed))
	return nil
}

// putManaged adds a managed resource, with its status if functions read it.
func (e *Export) putManaged(o *unstructured.Unstructured) error {
	if archive.IsOrHasAncestorOf(archive.ParentOf(o).Key, e.kinds.composites, e.instances) {
		return e.spool.putWithStatus(archive.Managed, o)
	}
	return e.spool.put(archive.Managed, o)
}

// readBindings reads the Bindings of the managed resources that were read, and those that
// reserve a key for one that is gone.
func (e *Export) readBindings(ctx context.Context) error {
	reset := func() {
		e.spool.dropKind(archive.Bindings, object.Key{Group: bindingKind.Group, Kind: bindingKind.Kind})
	}
	err := e.each(ctx, bindingKind, reset, func(b *unstructured.Unstructured) error {
		owner, uid := archive.Owner(b)
		if m := e.managed[uid]; m != nil {
			m.bound = m.bound || !archive.IsOwnerDeleted(b)
			return e.spool.put(archive.Bindings, b)
		}
		if !archive.ReservesKey(b) || len(e.Selection.Definitions) > 0 || !e.Selection.IncludesNamespace(owner.Namespace) {
			return nil
		}
		live, err := e.get(ctx, archive.OwnerKind(b), owner.Namespace, owner.Name)
		if err != nil && !isUnserved(err) {
			return err
		}
		if live != nil && live.GetUID() == uid {
			return nil // it was created since, and is not exported either
		}
		return e.spool.put(archive.Bindings, b)
	})
	if isUnserved(err) {
		e.note("no Bindings are exported: their kind is not served")
		return nil
	}
	e.Progress("read %s", diag.Counted(len(e.spool.entries[archive.Bindings]), "Binding", "Bindings"))
	return err
}

// readAgain reads managed resources once more whose Bindings were gone or in deletion. They may
// have been deleted in between, and then an import must not create them again.
func (e *Export) readAgain(ctx context.Context) error {
	for uid, m := range e.managed {
		if m.bound || m.deleting {
			continue
		}
		live, err := e.get(ctx, m.kind, m.key.Namespace, m.key.Name)
		switch {
		case err != nil:
			return err
		case live == nil || live.GetUID() != uid:
			e.spool.drop(archive.Managed, m.key)
			if err := e.dropBindings(m.key); err != nil {
				return err
			}
		case live.GetDeletionTimestamp() != nil:
			if err := e.putManaged(live); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropBindings drops the Bindings of a managed resource that is gone. Those reserve their keys
// for a limited time only.
func (e *Export) dropBindings(owner object.Key) error {
	e.note("%s was deleted during the export, and is not exported", owner)
	for key := range e.spool.entries[archive.Bindings] {
		b, err := e.spool.read(archive.Bindings, key)
		if err != nil {
			return err
		}
		if of, _ := archive.Owner(b); of == owner {
			e.spool.drop(archive.Bindings, key)
		}
	}
	return nil
}

// readConfigs reads provider configurations, and, if requested, their Secrets and those that
// compositions pass to functions.
func (e *Export) readConfigs(ctx context.Context) error {
	for _, o := range e.compositions {
		if err := e.readSecrets(ctx, o); err != nil {
			return err
		}
	}
	for _, gvk := range e.kinds.configs {
		if len(e.Selection.Definitions) > 0 && !archive.MayUse(e.definitions, gvk.GroupKind()) {
			continue
		}
		err := e.each(ctx, gvk, func() {}, func(o *unstructured.Unstructured) error {
			if !e.Selection.IncludesNamespace(o.GetNamespace()) && o.GetNamespace() != "" {
				return nil
			}
			if err := e.spool.put(archive.Configs, o); err != nil {
				return err
			}
			return e.readSecrets(ctx, o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Export) readSecrets(ctx context.Context, config *unstructured.Unstructured) error {
	for _, at := range archive.SecretsOf(config) {
		if e.secrets[at] {
			continue
		}
		e.secrets[at] = true
		if !archive.MayFollow(config, at[0], e.Selection) {
			e.note("%s refers to Secret %s/%s, which is not exported: it is outside the namespaces of the export, or of the object", object.KeyOf(config), at[0], at[1])
			e.secrets[at] = false // another object may refer to it from its own namespace
			continue
		}
		if !e.Secrets {
			e.note("%s needs Secret %s/%s, which is not exported", object.KeyOf(config), at[0], at[1])
			continue
		}
		secret, err := e.get(ctx, secretKind, at[0], at[1])
		if err != nil {
			return err
		}
		if secret == nil {
			e.note("%s needs Secret %s/%s, which does not exist", object.KeyOf(config), at[0], at[1])
			continue
		}
		if archive.IsClusterCredential(secret) {
			e.note("%s needs Secret %s/%s, which is not exported: its type or name gives access to this cluster", object.KeyOf(config), at[0], at[1])
			continue
		}
		if err := e.spool.put(archive.Secrets, secret); err != nil {
			return err
		}
	}
	return nil
}

// readNamespaces reads the namespaces of all exported objects.
func (e *Export) readNamespaces(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(e.spool.namespaces())) {
		ns, err := e.get(ctx, namespaceKind, "", name)
		if err != nil {
			return err
		}
		if ns == nil || ns.GetDeletionTimestamp() != nil {
			e.note("namespace %s was being deleted during the export", name)
			ns = &unstructured.Unstructured{Object: map[string]any{}}
			ns.SetGroupVersionKind(namespaceKind)
			ns.SetName(name)
		}
		if err := e.spool.put(archive.Namespaces, ns); err != nil {
			return err
		}
	}
	return nil
}
