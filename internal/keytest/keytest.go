// Package keytest changes keyed structs one field at a time, for tests of keys.
package keytest

import (
	"fmt"
	"reflect"

	"github.com/tilewright/tilewright/kernel"
)

// Fill gives every field of the struct that p points to a value: lists and maps get one element.
func Fill(p any) { fill(reflect.ValueOf(p).Elem()) }

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(elem)
		v.SetMapIndex(key, elem)
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	default:
		v.SetInt(1)
	}
}

// EachChange changes the struct that p points to in every single field, list and map, one after the
// other, calls visit with the changed field's path and its class by the tags on its way, and changes
// it back.
func EachChange(p any, visit func(path string, class kernel.FieldClass)) {
	change(reflect.ValueOf(p).Elem(), "", kernel.Hard, visit)
}

func change(v reflect.Value, path string, class kernel.FieldClass, visit func(string, kernel.FieldClass)) {
	old := reflect.ValueOf(v.Interface())
	with := func(changed reflect.Value, what string) {
		v.Set(changed)
		visit(path+what, class)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			change(v.Field(i), path+"."+f.Name, weakest(class, kernel.FieldClass(f.Tag.Get("key"))), visit)
		}
	case reflect.Slice:
		longer := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+1), old)
		with(reflect.Append(longer, reflect.Zero(v.Type().Elem())), " longer")
		for i := range v.Len() {
			change(v.Index(i), fmt.Sprintf("%s[%d]", path, i), class, visit)
		}
	case reflect.Map:
		changeMap(v, path, class, visit, with)
	case reflect.String:
		with(reflect.ValueOf(v.String()+"x").Convert(v.Type()), "")
	case reflect.Bool:
		with(reflect.ValueOf(!v.Bool()).Convert(v.Type()), "")
	case reflect.Float32, reflect.Float64:
		with(reflect.ValueOf(v.Float()+1).Convert(v.Type()), "")
	default:
		with(reflect.ValueOf(v.Int()+1).Convert(v.Type()), "")
	}
}

func changeMap(v reflect.Value, path string, class kernel.FieldClass, visit func(string, kernel.FieldClass),
	with func(reflect.Value, string)) {
	m := copyMap(v)
	m.SetMapIndex(reflect.ValueOf("another").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	with(m, " another key")
	for _, key := range v.MapKeys() {
		m := copyMap(v)
		m.SetMapIndex(key, reflect.Value{})
		with(m, fmt.Sprintf(" without %v", key))
		elem := reflect.New(v.Type().Elem()).Elem()
		elem.Set(v.MapIndex(key))
		change(elem, fmt.Sprintf("%s[%v]", path, key), class, func(p string, _ kernel.FieldClass) {
			m := copyMap(v)
			m.SetMapIndex(key, elem)
			with(m, p[len(path):])
		})
	}
}

func copyMap(v reflect.Value) reflect.Value {
	m := reflect.MakeMap(v.Type())
	for it := v.MapRange(); it.Next(); {
		m.SetMapIndex(it.Key(), it.Value())
	}
	return m
}

func weakest(a, b kernel.FieldClass) kernel.FieldClass {
	if a == kernel.Excluded || b == kernel.Excluded {
		return kernel.Excluded
	}
	if a == kernel.Soft || b == kernel.Soft {
		return kernel.Soft
	}
	return kernel.Hard
}
