// The parts of Vega that the page draws with, as the package has them (CommonJS), put together as Vega's own index
// does: the first use of a part loads it. `parts` comes from assemble_page.cmake.
const vega = (() => {
  const loaded = {};
  const require = (name) => {
    const part = name === 'vega-selections' ? 'vega-selection' : name;  // the file's name
    if (!loaded[part]) {
      const module = { exports: {} };
      loaded[part] = module.exports;
      parts[part](module.exports, module, require);
    }
    return loaded[part];
  };
  Object.assign(require('vega-dataflow').transforms, require('vega-transforms'), require('vega-view-transforms'),
                require('vega-encode'));
  return {
    View: require('vega-view').View,
    parse: require('vega-parser').parse,
    expressionInterpreter: require('vega-interpreter').expressionInterpreter,
  };
})();
