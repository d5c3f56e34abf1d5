"""What a policy's class does and holds, as 16 hexadecimal digits: the same in every process, other ones where its code, its
values, or the code and values of the user's that it names are others."""

import dis
import functools
import hashlib
import sys
import sysconfig
import types

_LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
_OF_THE_LANGUAGE = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__",
                    "__annotations__", "__annotate__", "__annotate_func__", "__conditional_annotations__", "__abstractmethods__",
                    "_abc_impl"}


class NoDigest(Exception):
    """What has none: a text that says what it is."""


def digest(value):
    return _Digester().of(value)[:16]


def is_of_user(module, file=None):
    """Whether a module is the user's own: not Python's, not installed."""
    file = file or getattr(sys.modules.get(module), "__file__", None) or ""
    return module != "builtins" and module.split(".")[0] not in ("moelab", *sys.builtin_module_names) \
        and not file.startswith(_LIBRARIES)


def _hash(*parts):
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


class _Digester:
    def __init__(self):
        self.seen = {}  # by id: its number and the value, which must live so that its id is its own

    def of(self, value):
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)) and type(value).__module__ == "builtins":
            return _hash(type(value).__name__, repr(value))
        if id(value) in self.seen:
            return _hash("again", str(self.seen[id(value)][0]))
        self.seen[id(value)] = len(self.seen), value
        return _hash(type(value).__qualname__, *self.parts(value))

    def all(self, values):
        return [self.of(value) for value in values]

    def parts(self, value):
        if isinstance(value, (list, tuple)):
            return self.all(value)
        if isinstance(value, (set, frozenset)):
            return sorted(digest(item) for item in value)
        if isinstance(value, (dict, types.MappingProxyType)):
            return sorted(digest(key) + self.of(item) for key, item in value.items())
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, (staticmethod, classmethod, types.MethodType)):
            return [self.of(value.__func__)]
        if isinstance(value, property):
            return self.all((value.fget, value.fset, value.fdel))
        if isinstance(value, functools.partial):
            return self.all((value.func, value.args, value.keywords))
        if isinstance(value, type):
            return self.type(value)
        if isinstance(value, types.ModuleType):
            return self.module(value)
        if hasattr(value, "dtype") and hasattr(value, "tobytes") and not value.dtype.hasobject:
            return [str(value.dtype), str(getattr(value, "shape", ())), hashlib.sha256(value.tobytes()).hexdigest()]
        return self.object(value)

    def function(self, function):
        if not is_of_user(function.__module__ or "", function.__code__.co_filename):
            return [str(function.__module__), function.__qualname__]
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:  # filled later
                cells.append(None)
        named = {name: function.__globals__[name] for name in sorted(_names(function.__code__))
                 if name in function.__globals__}
        return [*self.code(function.__code__), self.of(function.__defaults__), self.of(function.__kwdefaults__),
                *self.all(cells), self.of(named)]

    def code(self, code):
        inner = [_hash(*self.code(c)) if isinstance(c, types.CodeType) else self.of(c) for c in code.co_consts]
        return [code.co_code.hex(), " ".join(code.co_names), " ".join(code.co_varnames), " ".join(code.co_freevars), *inner]

    def type(self, one):
        if not is_of_user(one.__module__):
            return [one.__module__, one.__qualname__]
        held = [name + self.of(value) for name, value in sorted(vars(one).items()) if name not in _OF_THE_LANGUAGE
                and not isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType))]
        return [one.__qualname__, *held, *self.all(one.__bases__)]

    def module(self, module):
        file = getattr(module, "__file__", None)
        if not file or not is_of_user(module.__name__):
            return [module.__name__, str(getattr(module, "__version__", ""))]
        with open(file, "rb") as opened:
            return [module.__name__, hashlib.sha256(opened.read()).hexdigest()]

    def object(self, value):
        """By what it holds."""
        slots = [name for one in type(value).__mro__ for name in getattr(one, "__slots__", ()) if hasattr(value, name)]
        if not hasattr(value, "__dict__") and not slots:
            if type(value).__module__ in ("builtins", "builtin_function_or_method") or callable(value):
                return [str(getattr(value, "__module__", "")), str(getattr(value, "__qualname__", repr(value)))]
            raise NoDigest(f"an object of {type(value).__module__}.{type(value).__qualname__}")
        return [self.of(type(value)), self.of(getattr(value, "__dict__", {})),
                *(name + self.of(getattr(value, name)) for name in slots)]


def _names(code):
    """Names that code, and what is defined within it, takes from its module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
