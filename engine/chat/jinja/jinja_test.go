package jinja

import (
	"strings"
	"testing"
	"time"
)

func render(t *testing.T, src string, vars map[string]any) (string, error) {
	t.Helper()
	tmpl, err := Parse(src)
	if err != nil {
		return "", err
	}
	return tmpl.Render(vars)
}

// TestRender: the wanted texts are those of jinja2 with trim_blocks and lstrip_blocks.
func TestRender(t *testing.T) {
	vars := map[string]any{
		"s": "  Hello World ", "n": 3, "f": 1.5, "none": nil, "yes": true,
		"l": []any{"b", "a", "C"}, "nums": []any{3, 1, 2},
		"d": Dict{{"k", "v"}, {"n", 1}, {"inner", Dict{{"x", []any{1, nil, true}}}}},
		"messages": []any{
			Dict{{"role", "user"}, {"content", "hi"}}, Dict{{"role", "assistant"}, {"content", "yo"}},
		},
	}
	for src, want := range map[string]string{
		"plain\n":                                                           "plain",
		"{{ s }}|{{ s|trim }}":                                              "  Hello World |Hello World",
		"a\n  {% if yes %}\nb\n  {% endif %}\nc":                            "a\nb\nc",
		"a {%- if yes -%} b {%- endif %} c":                                 "ab c",
		"{#- c -#}\n x{# y #}\nz":                                           "xz",
		"a\n  {%+ if yes %}b{% endif +%}\nc":                                "a\n  b\nc",
		"{{ none }}{{ yes }}{{ f }}{{ 4.0 }}":                               "NoneTrue1.54.0",
		"{{ l }}{{ d }}":                                                    `['b', 'a', 'C']{'k': 'v', 'n': 1, 'inner': {'x': [1, None, True]}}`,
		"{{ d | tojson }}":                                                  `{"k": "v", "n": 1, "inner": {"x": [1, null, true]}}`,
		"{{ d.inner | tojson(indent=2) }}":                                  "{\n  \"x\": [\n    1,\n    null,\n    true\n  ]\n}",
		`{{ "é<'\u00e9" | tojson }}`:                                        `"é<'é"`,
		"{{ l|join(', ') }} {{ l|sort|join }}":                              "b, a, C abC",
		"{{ l[0] }}{{ l[-1] }}{{ l[1:]|length }}{{ l[::-1]|join }}":         "bC2Cab",
		"{{ s[2:7] }}{{ s.strip().split(' ')[-1] }}":                        "HelloWorld",
		"{{ 'a,b,c'.split(',', 1)[1] }}{{ 'x' in 'xyz' }}":                  "b,cTrue",
		"{{ 7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 2 ** 3 }}{{ 7 / 2 }}":        "31283.5",
		"{{ 'a' ~ 1 ~ none }}{{ 1 + 2 * 3 }}{{ (1 + 2) * 3 }}":              "a1None79",
		"{{ 'y' if yes else 'n' }}{{ 'y' if not yes }}":                     "y",
		"{{ missing }}{{ missing is defined }}{{ missing | default('z') }}": "Falsez",
		"{{ d.k is string and d.n is number and d is mapping }}":            "True",
		"{{ 1 < 2 < 3 }}{{ 3 not in nums }}{{ 'k' in d }}":                  "TrueFalseTrue",
		"{% for m in messages %}{{ loop.index }}{{ m['role'] }}{% if not loop.last %}, {% endif %}{% endfor %}":                   "1user, 2assistant",
		"{% for k, v in d.items() if k != 'inner' %}{{ k }}={{ v }};{% endfor %}":                                                 "k=v;n=1;",
		"{% for x in [] %}a{% else %}none{% endfor %}":                                                                            "none",
		"{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}": "02",
		"{% set ns = namespace(n=0) %}{% for x in nums %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}":                         "6",
		"{% set x = 1 %}{% for i in nums %}{% set x = i %}{% endfor %}{{ x }}":                                                    "1",
		"{% set x %}a{{ n }}{% endset %}{{ x }}{% set a, b = 1, 2 %}{{ a + b }}":                                                  "a33",
		"{% macro m(a, b='z') %}[{{ a }}{{ b }}]{% endmacro %}{{ m('x') }}{{ m('x', b='y') }}":                                    "[xz][xy]",
		"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}":                                              "<in>",
		"{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}":                               "hi",
		"{{ messages | rejectattr('role', 'eq', 'user') | list | length }}":                                                       "1",
		"{{ nums|sum }}{{ nums|max }}{{ nums|sort(reverse=true)|join }}{{ nums|map('string')|join('-') }}":                        "633213-1-2",
		"{% raw %}{{ x }}{% endraw %}{% generation %}g{% endgeneration %}":                                                        "{{ x }}g",
		"{% filter upper %}ab{% endfilter %}{{ 'a\\nb' | indent(2) }}":                                                            "ABa\n  b",
		"{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}":   "(1(2))(3)",
		"{{ {'a': {'b': 1}}.a.b }}{{ d.get('q', 'def') }}{{ d.keys()|list|length }}":                                              "1def3",
		"{% if s is defined and s %}1{% elif yes %}2{% else %}3{% endif %}":                                                       "1",
		"{{ 'Ab'.startswith('A') }}{{ 'a-b'.replace('-', '+') }}{{ 'ab cd'.title() }}{{ 'x'.upper() }}":                           "Truea+bAb CdX",
		"{{ 'abc'|first }}{{ 'abc'|last }}{{ 'abc'|reverse }}{{ d['k'] }}{{ d['zz'] is undefined }}":                              "accbavTrue",
	} {
		got, err := render(t, src, vars)
		if err != nil {
			t.Errorf("%s: %v", src, err)
		} else if got != want {
			t.Errorf("%s\n got %q\nwant %q", src, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for src, want := range map[string]string{
		"{% for m in messages %}{{ m['role'":  "not closed",
		"{% if x %}":                          "not closed",
		"{% endif %}":                         "unexpected",
		"{{ 1 + }}":                           "expected an expression",
		"{{ 'abc }}":                          "string is not closed",
		"{{ x | nosuch }}":                    "unknown filter",
		"{{ x is nosuch }}":                   "unknown test",
		"{% include 'a' %}":                   "not allowed",
		"{{ x.y.z }}":                         "undefined",
		"{{ 1 / 0 }}":                         "division by zero",
		"{{ raise_exception('no \x1b[2J') }}": `refuses: "no \x1b[2J"`,
		"{{ 'a' + 1 }}":                       "cannot compute",
		"{{ nofunc() }}":                      "cannot be called",
		"{{ \x01 }}":                          "unexpected character",
	} {
		if _, err := render(t, src, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %q", src, err, want)
		}
	}
}

// TestHostile: templates that would never end or fill the memory are stopped soon.
func TestHostile(t *testing.T) {
	for name, src := range map[string]string{
		"nested loops":    "{% for i in range(1000000) %}{% for j in range(1000000) %}x{% endfor %}{% endfor %}",
		"silent loops":    "{% set r = range(10000) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",
		"huge range":      "{% for i in range(10 ** 15) %}{% endfor %}",
		"doubling text":   "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"doubling list":   "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"nested list":     "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
		"replace":         "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('x', 'xxxxxxxx') %}{% endfor %}",
		"recursion":       "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"deep expression": "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"deep minus":      "{{ " + strings.Repeat("-", 100000) + "1 }}",
		"deep not":        "{{ " + strings.Repeat("not ", 100000) + "1 }}",
		"deep blocks":     strings.Repeat("{% if 1 %}", 100000),
		"deep index":      "{{ " + strings.Repeat("[", 100000) + " }}",
		"long chain":      "{{ 1" + strings.Repeat(" + 1", 60000) + " }}",
		"long path":       "{{ x" + strings.Repeat(".x", 100000) + " }}",
		"text times":      "{{ 'ab' * 1000000000 }}",
	} {
		start := time.Now()
		if _, err := render(t, src, nil); err == nil {
			t.Errorf("%s: no error", name)
		} else if len(err.Error()) > 200 {
			t.Errorf("%s: long message %.200s", name, err)
		}
		t.Logf("%s: %v", name, time.Since(start))
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m['role'] }}{{ m.content | trim }}{% endfor %}")
	f.Add("{%- set ns = namespace(a=1) -%}{% macro m(x, y=2) %}{{ x ~ y }}{% endmacro %}{{ m(1)[1:2] }}")
	f.Add("{{ {'a': [1, 2.5, none]} | tojson(indent=2) }}{# c #}{% raw %}{{{% endraw %}")
	f.Fuzz(func(t *testing.T, src string) {
		vars := map[string]any{"messages": []any{Dict{{"role", "user"}, {"content", " x "}}}}
		tmpl, err := Parse(src)
		if err == nil {
			_, err = tmpl.Render(vars)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("control character in %q", err)
		}
	})
}
