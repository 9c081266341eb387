package backup

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// Export exports a control plane once.
type Export struct {
	*Cluster
	Selection archive.Selection
	// Secrets reports whether the Secrets of provider configurations are exported, too.
	Secrets bool
	Version string
	ID      string
	Now     time.Time
	// Progress is called with messages about the progress; it is required.
	Progress func(format string, args ...any)

	spool       *spool
	definitions []*unstructured.Unstructured
	// compositions are those of the definitions' kinds, and their revisions.
	compositions []*unstructured.Unstructured
	// instances are the exported instances, with their parents.
	instances map[object.Key]archive.Parent
	managed   map[types.UID]*managedResource
	kinds     kinds
	// composed are the kinds of the resources that composites refer to.
	composed map[schema.GroupVersionKind]bool
	secrets  map[[2]string]bool
	notes    []string
}

// managedResource is the state of a managed resource when it was read.
type managedResource struct {
	key      object.Key
	kind     schema.GroupVersionKind
	deleting bool
	// bound reports whether a Binding of it was read that does not end.
	bound bool
}

// kinds are the kinds whose objects are exported, in the version that is read.
type kinds struct {
	instances, managed, configs []schema.GroupVersionKind
	// composites are the kinds of instances that belong to the composition dialect.
	composites map[schema.GroupKind]bool
	// custom reports of each kind with a CustomResourceDefinition whether it is served.
	custom map[schema.GroupKind]bool
	// installedBy are the instances with a CustomResourceDefinition as a child, by the kind that it
	// defines.
	installedBy map[schema.GroupKind]object.Key
}

// Run reads the control plane and writes the export. Objects are read before those that they
// create: definitions, instances, managed resources, and Bindings last. So whatever changes
// meanwhile, an exported object that would create an external resource has its Binding in the
// export, too.
func (e *Export) Run(ctx context.Context, w io.Writer) (header archive.Header, err error) {
	if e.spool, err = newSpool(); err != nil {
		return header, err
	}
	defer e.spool.close()
	e.instances, e.managed = map[object.Key]archive.Parent{}, map[types.UID]*managedResource{}
	e.composed, e.secrets = map[schema.GroupVersionKind]bool{}, map[[2]string]bool{}
	installation, err := e.installation(ctx)
	if err != nil {
		return header, err
	}
	for _, read := range []func(context.Context) error{
		e.readDefinitions, e.readFunctions, e.readKinds, e.readInstances, e.readManaged, e.readBindings, e.readAgain,
		e.readUsages, e.readConfigs, e.readNamespaces,
	} {
		if err := read(ctx); err != nil {
			return header, err
		}
	}
	requires, err := e.requires()
	if err != nil {
		return header, err
	}
	header = archive.NewHeader(e.ID, e.Now, installation, e.Version)
	header.Selection, header.Requires, header.Notes = e.Selection, requires, e.notes
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
	if text := fmt.Sprintf(format, args...); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
	}
}

// readKinds finds the kinds whose objects are exported: kinds that definitions define, kinds in
// the category "managed", and the configurations of their providers.
func (e *Export) readKinds(ctx context.Context) error {
	defined := archive.Defined(e.definitions)
	var configs []schema.GroupVersionKind
	reset := func() {
		e.kinds, configs = kinds{composites: map[schema.GroupKind]bool{}, custom: map[schema.GroupKind]bool{}, installedBy: map[schema.GroupKind]object.Key{}}, nil
	}
	reset()
	err := e.each(ctx, crdKind, reset, func(o *unstructured.Unstructured) error {
		var c apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			return fmt.Errorf("decode CustomResourceDefinition %s: %w", o.GetName(), err)
		}
		gvk, served := servedKind(&c)
		_, owned := crd.Owner(&c)
		composite := isComposites(&c)
		e.kinds.custom[gvk.GroupKind()] = served
		if instance, _, ok := inventory.InstanceOf(o); ok {
			e.kinds.installedBy[gvk.GroupKind()] = instance
		}
		switch {
		case !served:
		case (owned || composite) && defined[gvk.GroupKind()]:
			e.kinds.instances = append(e.kinds.instances, gvk)
			e.kinds.composites[gvk.GroupKind()] = composite
		case archive.IsConfig(gvk.GroupKind()):
			configs = append(configs, gvk)
		case !owned && !composite && slices.Contains(c.Spec.Names.Categories, "managed"):
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

// isComposites reports whether a definition of the composition dialect controls a kind.
func isComposites(c *apiextensionsv1.CustomResourceDefinition) bool {
	owner := metav1.GetControllerOfNoCopy(c)
	return owner != nil && owner.Kind == v1.DefinitionKind && schema.FromAPIVersionAndKind(owner.APIVersion, "").Group == v1.GroupVersion.Group
}

// knownKinds returns the kinds of composed resources whose CustomResourceDefinitions have to be
// installed before an import.
func (e *Export) knownKinds() []schema.GroupVersionKind {
	return slices.DeleteFunc(slices.Collect(maps.Keys(e.composed)), func(gvk schema.GroupVersionKind) bool {
		return !e.kinds.custom[gvk.GroupKind()]
	})
}

// servedKind returns the kind in its storage version, or else in the first version that is
// served.
func servedKind(c *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionKind, bool) {
	if !crd.IsEstablished(c) {
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
