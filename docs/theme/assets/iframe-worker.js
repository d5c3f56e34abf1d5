// Search of a page that a browser opened from disk. Search runs in a worker, and browsers start none there: the worker's script runs
// in a hidden frame. In the place of the script of this name that the theme would fetch from the network; its other scripts look for
// the class by this name.
if (location.protocol === 'file:') {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // until the script is there
      const frame = document.createElement('iframe');
      frame.hidden = true;
      frame.title = 'search';
      frame.addEventListener('load', () => this.start(frame.contentWindow, new URL(url, location.href)), { once: true });
      document.body.append(frame);
    }

    start(inside, url) {
      inside.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent('message', { data })));
      const script = inside.document.createElement('script');
      script.src = url;
      script.addEventListener('load', () => {
        this.inside = inside;
        for (const data of this.waiting.splice(0)) this.postMessage(data);
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new this.inside.MessageEvent('message', { data }));
      else this.waiting.push(data);
    }
  };
}
