package transfer

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/archive"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Export is one reading of a control plane.
type Export struct {
	*Cluster
	Selection archive.Selection
	// Secrets says that the Secrets of provider configurations are exported, too.
	Secrets bool
	Version string
	ID      string
	Now     time.Time
	// Say is told how far it is.
	Say func(format string, args ...any)

	spool       *spool
	definitions []*unstructured.Unstructured
	instances   map[object.Key]bool
	managed     map[types.UID]*reading
	kinds       kinds
	notes       []string
}

// reading is what is remembered of a managed resource that was read.
type reading struct {
	key      object.Key
	kind     schema.GroupVersionKind
	deleting bool
	// bound says that a Binding was read that speaks for it.
	bound bool
}

// kinds are those of which objects are exported, in the version that is read.
type kinds struct{ instances, managed, configs []schema.GroupVersionKind }

// Run reads the control plane and writes the export. What makes an object is read
// before the object: definitions, instances, managed resources, and Bindings last.
// So whatever happens meanwhile, what is in the export knows no less of an external
// resource than what would make it anew.
func (e *Export) Run(ctx context.Context, w io.Writer) (header archive.Header, err error) {
	if e.spool, err = newSpool(); err != nil {
		return header, err
	}
	defer e.spool.close()
	e.instances, e.managed = map[object.Key]bool{}, map[types.UID]*reading{}
	installation, err := e.installation(ctx)
	if err != nil {
		return header, err
	}
	for _, read := range []func(context.Context) error{
		e.readDefinitions, e.readKinds, e.readInstances, e.readManaged, e.readBindings, e.readAgain, e.readConfigs, e.readNamespaces,
	} {
		if err := read(ctx); err != nil {
			return header, err
		}
	}
	header = archive.NewHeader(e.ID, e.Now, installation, e.Version)
	header.Selection, header.Requires, header.Notes = e.Selection, archive.Requires(e.definitions), e.notes
	e.spool.count(header.Counts)
	raw, err := header.Encode()
	if err != nil {
		return header, err
	}
	if _, err := w.Write(raw); err != nil {
		return header, fmt.Errorf("write the export: %w", err)
	}
	var order []object.Key
	for _, d := range e.definitions {
		order = append(order, object.KeyOf(d))
	}
	return header, e.spool.copyTo(w, order)
}

func (e *Export) note(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, args...))
}

func (e *Export) readDefinitions(ctx context.Context) error {
	var all []*unstructured.Unstructured
	for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
		gvk := v1alpha1.GroupVersion.WithKind(kind)
		forget := func() {
			all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
		}
		err := e.each(ctx, gvk, forget, func(o *unstructured.Unstructured) error {
			if o.GetNamespace() == "" || e.Selection.In(o.GetNamespace()) {
				all = append(all, o)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(e.Selection.Definitions) > 0 {
		chosen, unknown := archive.With(all, e.Selection.Definitions)
		if len(unknown) > 0 {
			return fmt.Errorf("there is no definition %s", strings.Join(unknown, ", "))
		}
		all = chosen
	}
	e.definitions = archive.Order(all)
	for _, d := range e.definitions {
		if err := e.spool.put(archive.Definitions, d); err != nil {
			return err
		}
	}
	e.Say("read %d definitions", len(e.definitions))
	return nil
}

// readKinds finds the kinds whose objects are exported: those of definitions, those
// that call themselves managed, and those that configure the latter's providers.
func (e *Export) readKinds(ctx context.Context) error {
	defined := archive.Defined(e.definitions)
	var configs []schema.GroupVersionKind
	err := e.each(ctx, crdKind, func() { e.kinds, configs = kinds{}, nil }, func(o *unstructured.Unstructured) error {
		var c apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			return fmt.Errorf("decode CustomResourceDefinition %s: %w", o.GetName(), err)
		}
		gvk, served := servedKind(&c)
		_, owned := crd.Owner(&c)
		switch {
		case !served:
		case owned && defined[gvk.GroupKind()]:
			e.kinds.instances = append(e.kinds.instances, gvk)
		case archive.IsConfig(gvk.GroupKind()):
			configs = append(configs, gvk)
		case !owned && slices.Contains(c.Spec.Names.Categories, "managed"):
			e.kinds.managed = append(e.kinds.managed, gvk)
		}
		return nil
	})
	for _, c := range configs {
		if slices.ContainsFunc(e.kinds.managed, func(m schema.GroupVersionKind) bool { return archive.Configures(c.GroupKind(), m.Group) }) {
			e.kinds.configs = append(e.kinds.configs, c)
		}
	}
	return err
}

// servedKind is a kind in the version that it is stored in, or else the first that
// is served.
func servedKind(c *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionKind, bool) {
	if !crd.Established(c) {
		return schema.GroupVersionKind{}, false
	}
	version := ""
	for _, v := range c.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	return schema.GroupVersionKind{Group: c.Spec.Group, Version: version, Kind: c.Spec.Names.Kind}, version != ""
}

// readInstances reads the instances of all definitions, also those that are children
// of others: what they have recorded of their own children can't be made anew.
func (e *Export) readInstances(ctx context.Context) error {
	for _, gvk := range e.kinds.instances {
		forget := func() { e.spool.dropKind(archive.Instances, object.Key{Group: gvk.Group, Kind: gvk.Kind}) }
		err := e.each(ctx, gvk, forget, func(o *unstructured.Unstructured) error {
			if !e.Selection.In(o.GetNamespace()) {
				return nil
			}
			e.instances[object.KeyOf(o)] = true
			return e.spool.put(archive.Instances, o)
		})
		if err != nil {
			return err
		}
	}
	e.Say("read %d instances", len(e.instances))
	return nil
}

func (e *Export) readManaged(ctx context.Context) error {
	for _, gvk := range e.kinds.managed {
		forget := func() {
			e.spool.dropKind(archive.Managed, object.Key{Group: gvk.Group, Kind: gvk.Kind})
			maps.DeleteFunc(e.managed, func(_ types.UID, m *reading) bool { return m.kind == gvk })
		}
		err := e.each(ctx, gvk, forget, func(o *unstructured.Unstructured) error {
			if !e.Selection.TakesManaged(o, e.instances) {
				return nil
			}
			e.managed[o.GetUID()] = &reading{key: object.KeyOf(o), kind: gvk, deleting: o.GetDeletionTimestamp() != nil}
			return e.spool.put(archive.Managed, o)
		})
		if err != nil {
			return err
		}
	}
	e.Say("read %d managed resources", len(e.managed))
	return nil
}

// readBindings reads the Bindings of the managed resources that were read, and those
// that keep a place for one that has gone.
func (e *Export) readBindings(ctx context.Context) error {
	forget := func() {
		e.spool.dropKind(archive.Bindings, object.Key{Group: bindingKind.Group, Kind: bindingKind.Kind})
	}
	err := e.each(ctx, bindingKind, forget, func(b *unstructured.Unstructured) error {
		owner, uid := archive.Owner(b)
		if m := e.managed[uid]; m != nil {
			m.bound = m.bound || !archive.Ends(b)
			return e.spool.put(archive.Bindings, b)
		}
		if !archive.KeepsKey(b) || len(e.Selection.Definitions) > 0 || !e.Selection.In(owner.Namespace) {
			return nil
		}
		live, err := e.get(ctx, archive.OwnerKind(b), owner.Namespace, owner.Name)
		if err != nil && !isUnserved(err) {
			return err
		}
		if live != nil && live.GetUID() == uid {
			return nil // it has come since, and isn't in the export either
		}
		return e.spool.put(archive.Bindings, b)
	})
	if isUnserved(err) {
		e.note("there were no Bindings: the kind wasn't served")
		return nil
	}
	e.Say("read %d bindings", len(e.spool.entries[archive.Bindings]))
	return err
}

// readAgain looks once more at managed resources whose Bindings weren't there any
// more, or were at their end: they may have been deleted in between, and must not
// come to life again.
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
			e.dropBindings(m.key)
		case live.GetDeletionTimestamp() != nil:
			if err := e.spool.put(archive.Managed, live); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropBindings leaves out what was read of a managed resource that has gone. What
// its Bindings keep is kept for a time only.
func (e *Export) dropBindings(owner object.Key) {
	e.note("%s was deleted while the export was made, and is left out", owner)
	for key, at := range e.spool.entries[archive.Bindings] {
		raw := make([]byte, at.length)
		if _, err := e.spool.file.ReadAt(raw, at.at); err != nil {
			continue
		}
		if b, err := archive.DecodeObject(raw); err == nil {
			if of, _ := archive.Owner(b); of == owner {
				e.spool.drop(archive.Bindings, key)
			}
		}
	}
}

// readConfigs reads what configures providers, and their Secrets if that was asked
// for.
func (e *Export) readConfigs(ctx context.Context) error {
	for _, gvk := range e.kinds.configs {
		err := e.each(ctx, gvk, func() {}, func(o *unstructured.Unstructured) error {
			if !e.Selection.In(o.GetNamespace()) && o.GetNamespace() != "" {
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
		if !e.Secrets {
			e.note("%s needs Secret %s/%s, which isn't in the export", object.KeyOf(config), at[0], at[1])
			continue
		}
		secret, err := e.get(ctx, secretKind, at[0], at[1])
		if err != nil {
			return err
		}
		if secret == nil {
			e.note("%s needs Secret %s/%s, which isn't there", object.KeyOf(config), at[0], at[1])
			continue
		}
		if err := e.spool.put(archive.Secrets, secret); err != nil {
			return err
		}
	}
	return nil
}

// readNamespaces reads those that something is in.
func (e *Export) readNamespaces(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(e.spool.namespaces())) {
		ns, err := e.get(ctx, namespaceKind, "", name)
		if err != nil {
			return err
		}
		if ns == nil || ns.GetDeletionTimestamp() != nil {
			e.note("namespace %s was being deleted while the export was made", name)
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
