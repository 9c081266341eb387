package gotemplating

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

const (
	// maxWork bounds a rendering. A step costs stepWork, and what functions read and return costs a unit for each byte.
	maxWork  = 64 << 20
	stepWork = 64
	// maxText bounds the output of a rendering, and each text that a function returns.
	maxText = 4 << 20
	// maxItems bounds each list and map that a function returns.
	maxItems = 100_000
	// maxValueDepth bounds the levels of a value that a function reads as a whole, or that is printed.
	maxValueDepth = 200
	// maxLevels bounds nested templates, each with the levels of its blocks and brackets: the interpreter recurses.
	// Templates that are included count more: each repeats the error of the inner one.
	maxLevels     = 10_000
	includeLevels = 10
	// maxBlocks bounds the levels of blocks and brackets in one template.
	maxBlocks = 1000
)

var (
	errWork   = fmt.Errorf("the templates do too much: a rendering is limited to about %d steps or %d MiB of values", maxWork/stepWork, maxWork>>20)
	errLevels = fmt.Errorf("the templates are nested too deeply: templates that include each other, with their blocks, are limited to %d levels", maxLevels)
	errDepth  = fmt.Errorf("the value is nested more than %d levels deep, or contains itself", maxValueDepth)
)

// execution is the state of one rendering.
type execution struct {
	// ctx ends when nobody waits for the response any longer; nil if somebody always does.
	ctx context.Context //nolint:containedctx // functions of templates get no context
	// left is the work that is left, and levels counts up to maxLevels.
	left, levels int
	// usesClock says that the output depends on the time.
	usesClock bool
}

// spend counts work.
func (e *execution) spend(units int) error {
	if e.left -= units; units < 0 || e.left < 0 {
		return errWork
	}
	if e.ctx != nil && e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	return nil
}

// output is a text that grows up to maxText.
type output struct{ strings.Builder }

var errOutput = fmt.Errorf("the output of the templates has more than %d bytes", maxText)

func (o *output) Write(p []byte) (int, error) {
	if o.Len()+len(p) > maxText {
		return 0, errOutput
	}
	return o.Builder.Write(p)
}

// measure returns the bytes that it takes to print a value, approximately. It is an error if it is nested too deeply.
func (e *execution) measure(v reflect.Value, depth int) (bytes int, err error) {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		v = v.Elem()
	}
	if !v.IsValid() {
		return 1, nil
	}
	const perValue = 16
	bytes = perValue + 2*depth // pretty printers indent
	add := func(part reflect.Value) error {
		n, err := e.measure(part, depth+1)
		if bytes += n; err == nil && bytes > maxWork {
			err = errWork
		}
		return err
	}
	switch v.Kind() {
	case reflect.String:
		return bytes + v.Len(), nil
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return bytes + v.Len(), nil
		}
		if depth == maxValueDepth {
			return bytes, errDepth
		}
		for i := range v.Len() {
			if err := add(v.Index(i)); err != nil {
				return bytes, err
			}
		}
	case reflect.Map:
		if depth == maxValueDepth {
			return bytes, errDepth
		}
		for each := v.MapRange(); each.Next(); {
			if err := errors.Join(add(each.Key()), add(each.Value())); err != nil {
				return bytes, err
			}
		}
	case reflect.Struct: // of sprig or of the standard library
		for i := range v.NumField() {
			if field := v.Field(i); field.Kind() == reflect.String {
				bytes += field.Len()
			}
		}
	default:
	}
	return bytes, nil
}

// timesUpTo multiplies numbers that are not negative, up to just over maxWork.
func timesUpTo(a, b int) int {
	a, b = max(a, 0), max(b, 0)
	if b > 0 && a > maxWork/b {
		return maxWork + 1
	}
	return a * b
}
