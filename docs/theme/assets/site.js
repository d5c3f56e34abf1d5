// What readers of a screen need and the theme leaves out.
document.querySelector('.md-search')?.setAttribute('aria-label', 'Search');
