package fakekube

import (
	"context"
	"strconv"

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

// Resource returns the requests about a kind; see dynamic.Interface.
func (c *Cluster) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return requests{cluster: c, kind: c.known[gvr], resource: gvr.GroupResource()}
}

// requests are those about the objects of a kind in one namespace, or in all.
type requests struct {
	dynamic.NamespaceableResourceInterface // what no controller asks for
	cluster                                *Cluster
	kind                                   schema.GroupVersionKind
	resource                               schema.GroupResource
	namespace                              string
}

// Namespace is that of dynamic.Interface.
func (r requests) Namespace(namespace string) dynamic.ResourceInterface {
	r.namespace = namespace
	return r
}

// make makes a request about an object, as far as the test lets it.
func (r requests) make(verb, name string, carryOut func(key object.Key, o *unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	c, key := r.cluster, object.Key{Group: r.kind.Group, Kind: r.kind.Kind, Namespace: r.namespace, Name: name}
	text := verb + " " + key.String()
	c.mu.Lock()
	c.Requests = append(c.Requests, text)
	c.mu.Unlock()
	if c.Before != nil {
		if err := c.Before(text); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	answer, err := carryOut(key, c.objects[key].DeepCopy())
	c.mu.Unlock()
	if err == nil && c.After != nil {
		if err := c.After(text); err != nil {
			return nil, err
		}
	}
	return answer, err
}

func (r requests) absent(name string) error { return apierrors.NewNotFound(r.resource, name) }

// matches is the error of a write that is meant for another incarnation or revision.
func (r requests) matches(live *unstructured.Unstructured, uid types.UID, revision string) error {
	if uid != "" && uid != live.GetUID() || revision != "" && revision != live.GetResourceVersion() {
		return apierrors.NewConflict(r.resource, live.GetName(), nil)
	}
	return nil
}

// Get is that of dynamic.Interface.
func (r requests) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.make("get", name, func(_ object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live == nil {
			return nil, r.absent(name)
		}
		return live, nil
	})
}

// List is that of dynamic.Interface.
func (r requests) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	_, err := r.make("list", "", func(object.Key, *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		selector, err := labels.Parse(options.LabelSelector)
		if err != nil {
			return nil, err
		}
		keys := r.cluster.keys(func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == r.kind && (r.namespace == "" || o.GetNamespace() == r.namespace) && selector.Matches(labels.Set(o.GetLabels()))
		})
		from, _ := strconv.Atoi(options.Continue)
		keys = keys[min(from, len(keys)):]
		if page := r.cluster.Page; page > 0 && len(keys) > page {
			keys = keys[:page]
			list.SetContinue(strconv.Itoa(from + page))
		}
		for _, key := range keys {
			list.Items = append(list.Items, *r.cluster.objects[key].DeepCopy())
		}
		return nil, nil
	})
	return list, err
}

// Create is that of dynamic.Interface. It notes who has made the object.
func (r requests) Create(_ context.Context, o *unstructured.Unstructured, options metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.make("create", o.GetName(), func(_ object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live != nil {
			return nil, apierrors.NewAlreadyExists(r.resource, o.GetName())
		}
		o := o.DeepCopy()
		o.SetUID("")
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: options.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate}})
		return r.cluster.store(o), nil
	})
}

// Apply is that of dynamic.Interface. Fields are nobody's: it merges.
func (r requests) Apply(_ context.Context, name string, o *unstructured.Unstructured, _ metav1.ApplyOptions, _ ...string) (*unstructured.Unstructured, error) {
	body, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return r.make("apply", name, func(_ object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live == nil && o.GetUID() == "" {
			return r.cluster.store(o.DeepCopy()), nil
		}
		if live == nil {
			return nil, apierrors.NewConflict(r.resource, name, nil)
		}
		return r.merge(live, body, jsonpatch.MergePatch)
	})
}

func (r requests) merge(live *unstructured.Unstructured, body []byte, merge func(doc, body []byte) ([]byte, error)) (*unstructured.Unstructured, error) {
	before, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := merge(before, body)
	if err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	if err := r.matches(live, next.GetUID(), next.GetResourceVersion()); err != nil {
		return nil, err
	}
	return r.cluster.store(next), nil
}

// Patch is that of dynamic.Interface.
func (r requests) Patch(_ context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.make(dry("patch", options.DryRun), name, func(_ object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live == nil {
			return nil, r.absent(name)
		}
		merge := jsonpatch.MergePatch
		if kind == types.JSONPatchType {
			merge = func(doc, body []byte) ([]byte, error) {
				patch, err := jsonpatch.DecodePatch(body)
				if err != nil {
					return nil, err
				}
				return patch.Apply(doc)
			}
		}
		answer, err := r.merge(live.DeepCopy(), body, merge)
		if err == nil && len(options.DryRun) > 0 {
			r.cluster.store(live)
		}
		return answer, err
	})
}

// dry names a request that is only checked.
func dry(verb string, dryRun []string) string {
	if len(dryRun) > 0 {
		return "dry-run " + verb
	}
	return verb
}

func (r requests) update(verb string, o *unstructured.Unstructured, into func(live *unstructured.Unstructured) *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return r.make(verb, o.GetName(), func(_ object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live == nil {
			return nil, r.absent(o.GetName())
		}
		if err := r.matches(live, o.GetUID(), o.GetResourceVersion()); err != nil {
			return nil, err
		}
		return r.cluster.store(into(live)), nil
	})
}

// Update is that of dynamic.Interface.
func (r requests) Update(_ context.Context, o *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return r.update("update", o, func(*unstructured.Unstructured) *unstructured.Unstructured { return o.DeepCopy() })
}

// UpdateStatus is that of dynamic.Interface.
func (r requests) UpdateStatus(_ context.Context, o *unstructured.Unstructured, _ metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	return r.update("update-status", o, func(live *unstructured.Unstructured) *unstructured.Unstructured {
		live.Object["status"] = o.DeepCopy().Object["status"]
		return live
	})
}

// Delete is that of dynamic.Interface.
func (r requests) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	_, err := r.make("delete", name, func(key object.Key, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if live == nil {
			return nil, r.absent(name)
		}
		if p := options.Preconditions; p != nil && p.UID != nil {
			if err := r.matches(live, *p.UID, ""); err != nil {
				return nil, err
			}
		}
		if len(live.GetFinalizers()) == 0 {
			delete(r.cluster.objects, key)
		} else if live.GetDeletionTimestamp() == nil {
			now := metav1.Unix(0, 0)
			live.SetDeletionTimestamp(&now)
			r.cluster.store(live)
		}
		return nil, nil
	})
	return err
}
