package gotemplating

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/espalier-dev/espalier/internal/object/bounded"
	"github.com/espalier-dev/espalier/internal/object/regexps"
)

func setOf(names string) map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(names) {
		out[name] = true
	}
	return out
}

var (
	// shallow functions do not visit the values in their arguments. All others get arguments of a bounded depth and size.
	shallow = setOf(`dict list tuple get set unset hasKey keys values pick omit pluck dig concat chunk mustChunk
		append mustAppend push mustPush prepend mustPrepend first mustFirst last mustLast rest mustRest initial mustInitial
		reverse mustReverse slice mustSlice default empty coalesce all any ternary kindOf kindIs typeOf typeIs typeIsLike include
		getResourceCondition getCompositeResource getComposedResource getComposedConnectionDetails getExtraResources
		getExtraResourcesFromContext getCredentialData`)
	// returnsPart functions return a list or map that exists already.
	returnsPart = setOf(`get set unset dig first mustFirst last mustLast default coalesce ternary
		getCompositeResource getComposedResource getComposedConnectionDetails getExtraResources getExtraResourcesFromContext`)
)

// cost predicts the bytes of a function's result, and the work besides reading the arguments and writing the result.
type cost func(args []reflect.Value, measured []int) (result, work int, err error)

// costs are the functions whose result or work is not proportional to their arguments.
var costs = map[string]cost{
	"repeat":  func(a []reflect.Value, _ []int) (int, int, error) { return timesUpTo(intOf(a[0]), a[1].Len()), 0, nil },
	"indent":  indentCost,
	"nindent": indentCost,
	"wrapWith": func(a []reflect.Value, _ []int) (int, int, error) {
		return a[2].Len() + timesUpTo(a[1].Len(), a[2].Len()), 0, nil
	},
	"replace": func(a []reflect.Value, m []int) (int, int, error) {
		found := strings.Count(a[2].String(), a[0].String())
		return m[2] + timesUpTo(found, a[1].Len()), 0, nil
	},
	"join": func(a []reflect.Value, m []int) (int, int, error) {
		items := indirect(a[1])
		if items.Kind() != reflect.Slice && items.Kind() != reflect.Array {
			return m[1], 0, nil
		}
		return m[1] + timesUpTo(items.Len(), m[0]), 0, nil
	},
	"printf": printfCost,

	"until": func(a []reflect.Value, _ []int) (int, int, error) { return itemsCost(abs(intOf(a[0]))) },
	"untilStep": func(a []reflect.Value, _ []int) (int, int, error) {
		return rangeCost(intOf(a[0]), intOf(a[1]), intOf(a[2]))
	},
	"seq": seqCost,

	"randAlphaNum": lengthCost, "randAlpha": lengthCost, "randAscii": lengthCost, "randNumeric": lengthCost, "randBytes": lengthCost,

	"uniq": squareCost, "mustUniq": squareCost,
	"without":     func(a []reflect.Value, m []int) (int, int, error) { return 0, timesUpTo(a[1].Len(), m[0]), nil },
	"mustWithout": func(a []reflect.Value, m []int) (int, int, error) { return 0, timesUpTo(a[1].Len(), m[0]), nil },

	"fromYaml": parseCost, "fromJson": parseCost, "mustFromJson": parseCost,

	"regexMatch": regexpCost(nil), "mustRegexMatch": regexpCost(nil),
	"regexFind": regexpCost(nil), "mustRegexFind": regexpCost(nil),
	"regexFindAll": regexpCost(nil), "mustRegexFindAll": regexpCost(nil),
	"regexSplit": regexpCost(nil), "mustRegexSplit": regexpCost(nil),
	"regexReplaceAll": regexpCost(expanded), "mustRegexReplaceAll": regexpCost(expanded),
	"regexReplaceAllLiteral": regexpCost(literal), "mustRegexReplaceAllLiteral": regexpCost(literal),

	"bcrypt": hash, "htpasswd": hash, "derivePassword": key,
	"genPrivateKey": key, "genCA": key, "genSelfSignedCert": key, "genSignedCert": key,
	"genCAWithKey": hash, "genSelfSignedCertWithKey": hash, "genSignedCertWithKey": hash,
}

// A hash for passwords takes about a tenth of a second, a key up to some seconds.
func hash([]reflect.Value, []int) (int, int, error) { return 0, maxWork / 40, nil }
func key([]reflect.Value, []int) (int, int, error)  { return 0, maxWork / 20, nil }

func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

func intOf(v reflect.Value) int {
	if v = indirect(v); v.CanInt() {
		return int(v.Int())
	}
	return 0
}

func abs(n int) int { return max(n, -n) }

func itemsCost(n int) (result, work int, err error) {
	if n > maxItems || n < 0 {
		return 0, 0, fmt.Errorf("the result has more than %d items", maxItems)
	}
	return 0, 0, nil
}

// rangeCost bounds the numbers of a sequence. A step in the other direction gives none.
func rangeCost(start, stop, step int) (result, work int, err error) {
	if step == 0 {
		return 0, 0, nil
	}
	return itemsCost(int(min(math.Abs((float64(stop)-float64(start))/float64(step)), maxWork)))
}

// seqCost is for seq LAST, seq FIRST LAST and seq FIRST STEP LAST.
func seqCost(a []reflect.Value, _ []int) (result, work int, err error) {
	start, step, stop := 1, 1, 0
	number := func(i int) int { return intOf(a[0].Index(i)) }
	switch a[0].Len() {
	case 1:
		stop = number(0)
	case 2:
		start, stop = number(0), number(1)
	case 3:
		start, step, stop = number(0), number(1), number(2)
	}
	return rangeCost(start, stop, step)
}

func indentCost(a []reflect.Value, m []int) (result, work int, err error) {
	return m[1] + timesUpTo(intOf(a[0]), strings.Count(a[1].String(), "\n")+1), 0, nil
}

func lengthCost(a []reflect.Value, _ []int) (result, work int, err error) {
	return max(intOf(a[0]), 0), timesUpTo(intOf(a[0]), 16), nil
}

func squareCost(a []reflect.Value, m []int) (result, work int, err error) {
	items := indirect(a[0])
	if items.Kind() != reflect.Slice && items.Kind() != reflect.Array {
		return 0, 0, nil
	}
	return 0, timesUpTo(items.Len(), m[0]/8), nil
}

func parseCost(a []reflect.Value, m []int) (result, work int, err error) {
	values := bounded.Values([]byte(a[0].String()))
	if values > maxItems {
		return 0, 0, fmt.Errorf("the text has more than %d values", maxItems)
	}
	return 0, timesUpTo(values, 128) + timesUpTo(m[0], 8), nil
}

// printfCost lets each verb pad to the widest number in a verb. If the format selects arguments by their number, each
// verb may print the largest.
func printfCost(a []reflect.Value, m []int) (result, work int, err error) {
	format, args := a[0].String(), a[1]
	verbs, width, choosesArguments, asterisks := scanFormat(format)
	largest := 0
	for i := range args.Len() {
		arg := indirect(args.Index(i))
		if arg.IsValid() && arg.Kind() == reflect.String {
			largest = max(largest, arg.Len())
		} else {
			largest = max(largest, m[1])
		}
		if asterisks {
			width = max(width, min(abs(intOf(arg)), maxText))
		}
	}
	result = m[0] + m[1] + timesUpTo(verbs, width)
	if choosesArguments {
		result += timesUpTo(verbs, largest)
	}
	return result, 0, nil
}

func scanFormat(format string) (verbs, width int, choosesArguments, asterisks bool) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		verbs++
		number := 0
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case c >= '0' && c <= '9':
				number = min(number*10+int(c-'0'), maxText)
				width = max(width, number)
				continue
			case c == '[':
				choosesArguments = true
			case c == '*':
				asterisks = true
			}
			number = 0
		}
	}
	return verbs, width, choosesArguments, asterisks
}

// expanded and literal return the bytes that the matches in a text are replaced by.
func expanded(matches, text int, by string) int {
	return timesUpTo(matches, len(by)) + timesUpTo(strings.Count(by, "$"), text)
}

func literal(matches, _ int, by string) int { return timesUpTo(matches, len(by)) }

// regexpCost is for functions of a pattern, a text and perhaps a replacement.
func regexpCost(replaced func(matches, text int, by string) int) cost {
	return func(a []reflect.Value, _ []int) (result, work int, err error) {
		re, err := regexps.Compile(a[0].String())
		if err != nil {
			return 0, 0, err
		}
		text := a[1].String()
		found, err := re.FindAll(text, -1)
		if err == nil && replaced != nil {
			result = len(text) + replaced(len(found), len(text), a[2].String())
		}
		return result, re.Steps(text), err
	}
}
