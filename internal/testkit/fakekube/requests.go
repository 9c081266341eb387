package fakekube

import (
	"context"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/object"
)

type obj = unstructured.Unstructured

// Resource implements dynamic.Interface. The resource has been resolved before, or is that of
// a stored object.
func (c *Cluster) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return requests{cluster: c, kind: c.resolved[gvr], resource: gvr.GroupResource()}
}

// requests implements dynamic.NamespaceableResourceInterface, as far as controllers use it, for
// one kind in one namespace or in all.
type requests struct {
	dynamic.NamespaceableResourceInterface
	cluster   *Cluster
	kind      schema.GroupVersionKind
	resource  schema.GroupResource
	namespace string
}

func (r requests) Namespace(namespace string) dynamic.ResourceInterface {
	r.namespace = namespace
	return r
}

// do records a request and carries it out between Before and After. Requests about an absent
// object fail, except those that may create it, and lists.
func (r requests) do(verb, name string, carryOut func(live *obj) (*obj, error)) (*obj, error) {
	c, key := r.cluster, object.Key{Group: r.kind.Group, Kind: r.kind.Kind, Namespace: r.namespace, Name: name}
	request := verb + " " + key.String()
	c.mu.Lock()
	c.Requests = append(c.Requests, request)
	before, after := c.Before, c.After
	c.mu.Unlock()
	if before != nil {
		if err := before(request); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	live, answer, err := c.objects[key].DeepCopy(), (*obj)(nil), error(apierrors.NewNotFound(r.resource, name))
	if live != nil || strings.HasSuffix(verb, "create") || strings.HasSuffix(verb, "apply") || verb == "list" || verb == "watch" {
		answer, err = carryOut(live)
	}
	c.mu.Unlock()
	if err == nil && after != nil {
		err = after(request)
	}
	return answer, err
}

// precondition fails where the UID or the resource version of a request is not the live one.
func (r requests) precondition(live *obj, uid types.UID, version string) error {
	if uid != "" && uid != live.GetUID() || version != "" && version != live.GetResourceVersion() {
		return apierrors.NewConflict(r.resource, live.GetName(), nil)
	}
	return nil
}

func (r requests) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*obj, error) {
	return r.do("get", name, func(live *obj) (*obj, error) { return live, nil })
}

func (r requests) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	_, err = r.do("list", "", func(*obj) (*obj, error) {
		list.SetResourceVersion(strconv.Itoa(r.cluster.revision))
		found := r.cluster.find(r.kind.GroupKind(), r.namespace, selector)
		from, _ := strconv.Atoi(options.Continue)
		found = found[min(from, len(found)):]
		if page := r.cluster.Page; page > 0 && len(found) > page {
			found = found[:page]
			list.SetContinue(strconv.Itoa(from + page))
		}
		for _, o := range found {
			list.Items = append(list.Items, *o)
		}
		return nil, nil
	})
	return list, err
}

func (r requests) Create(_ context.Context, o *obj, options metav1.CreateOptions, _ ...string) (*obj, error) {
	verb, dryRun := dryRun("create", options.DryRun)
	return r.do(verb, o.GetName(), func(live *obj) (*obj, error) {
		if live != nil {
			return nil, apierrors.NewAlreadyExists(r.resource, o.GetName())
		}
		o := o.DeepCopy()
		if dryRun {
			return o, nil
		}
		o.SetUID("")
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: options.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate}})
		return r.cluster.store(o), nil
	})
}

// Apply merges: there is no field management.
func (r requests) Apply(_ context.Context, name string, o *obj, options metav1.ApplyOptions, _ ...string) (*obj, error) {
	verb, dryRun := dryRun("apply", options.DryRun)
	return r.do(verb, name, func(live *obj) (*obj, error) {
		switch {
		case live == nil && o.GetUID() != "":
			return nil, apierrors.NewConflict(r.resource, name, nil)
		case live == nil && dryRun:
			return o.DeepCopy(), nil
		case live == nil:
			return r.cluster.store(o.DeepCopy()), nil
		}
		body, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		return r.patch(live, types.MergePatchType, body, dryRun)
	})
}

// dryRun returns the verb of a request, as it is recorded, and whether nothing is stored.
func dryRun(verb string, option []string) (string, bool) {
	if len(option) == 0 {
		return verb, false
	}
	return "dry-run " + verb, true
}

func (r requests) Patch(ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions, _ ...string) (*obj, error) {
	if kind == types.ApplyPatchType {
		o := &obj{}
		if err := o.UnmarshalJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return r.Apply(ctx, name, o, metav1.ApplyOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	}
	verb, dryRun := dryRun("patch", options.DryRun)
	return r.do(verb, name, func(live *obj) (*obj, error) { return r.patch(live, kind, body, dryRun) })
}

func (r requests) patch(live *obj, kind types.PatchType, body []byte, dryRun bool) (*obj, error) {
	raw, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if kind != types.JSONPatchType {
		raw, err = jsonpatch.MergePatch(raw, body)
	} else if operations, decodeErr := jsonpatch.DecodePatch(body); decodeErr != nil {
		return nil, decodeErr
	} else {
		raw, err = operations.Apply(raw)
	}
	if err != nil {
		return nil, err
	}
	next := &obj{}
	if err := next.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	if err := r.precondition(live, next.GetUID(), next.GetResourceVersion()); err != nil || dryRun {
		return next, err
	}
	return r.cluster.store(next), nil
}

func (r requests) Update(_ context.Context, o *obj, options metav1.UpdateOptions, _ ...string) (*obj, error) {
	return r.update("update", o, options, func(*obj) *obj { return o.DeepCopy() })
}

func (r requests) UpdateStatus(_ context.Context, o *obj, options metav1.UpdateOptions) (*obj, error) {
	return r.update("update-status", o, options, func(live *obj) *obj {
		live.Object["status"] = o.DeepCopy().Object["status"]
		return live
	})
}

func (r requests) update(verb string, o *obj, options metav1.UpdateOptions, next func(live *obj) *obj) (*obj, error) {
	verb, dryRun := dryRun(verb, options.DryRun)
	return r.do(verb, o.GetName(), func(live *obj) (*obj, error) {
		if err := r.precondition(live, o.GetUID(), o.GetResourceVersion()); err != nil {
			return nil, err
		}
		if dryRun {
			return next(live), nil
		}
		return r.cluster.store(next(live)), nil
	})
}

func (r requests) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	verb, dryRun := dryRun("delete", options.DryRun)
	_, err := r.do(verb, name, func(live *obj) (*obj, error) {
		if p := options.Preconditions; p != nil && p.UID != nil {
			revision := ""
			if p.ResourceVersion != nil {
				revision = *p.ResourceVersion
			}
			if err := r.precondition(live, *p.UID, revision); err != nil {
				return nil, err
			}
		}
		if live.GetDeletionTimestamp() == nil && !dryRun {
			now := metav1.Unix(0, 0)
			live.SetDeletionTimestamp(&now)
			r.cluster.store(live)
		}
		return nil, nil
	})
	return err
}
